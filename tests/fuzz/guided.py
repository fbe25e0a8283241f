"""Fuzzes formulas and JSON by coverage, with atheris: ``python tests/fuzz/guided.py formula 60``.

The inputs that reach new code are kept in ``tests/fuzz/corpus/NAME``. An error that is not of one
line ends the run, and atheris writes the input to a file beside it.
"""

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
with atheris.instrument_imports(include=["pytest_attnmem"]):
    from targets import FILES, TEXTS, as_json  # isort: skip

    from pytest_attnmem.errors import AttnMemError


def reader(name: str) -> Callable[[bytes], None]:
    """Returns a function that gives bytes to the target of that name."""
    target = next(target for target in (*TEXTS, *FILES) if target.name == name)
    folder = tempfile.TemporaryDirectory(prefix="attnmem-fuzz-")  # until the end of the process

    def read(data: bytes) -> None:
        if target in TEXTS:
            given = data.decode("utf-8", "ignore")
        else:
            given = Path(folder.name, "input.json")
            given.write_bytes(data)
        try:
            target.read(given)
        except AttnMemError as error:
            if len(str(error).splitlines()) > 1:
                raise AssertionError(f"more than a line: {error}") from error

    return read


def main() -> None:
    """Runs one target for so many seconds, or until an input fails."""
    name, seconds = sys.argv[1], int(sys.argv[2])
    corpus = HERE / "corpus" / name.replace(" ", "-")
    corpus.mkdir(parents=True, exist_ok=True)
    for target in FILES:  # what is valid is where the search begins
        if target.name == name:
            (corpus / "valid.json").write_bytes(as_json(target.valid))
    read = reader(name)
    limits = [f"-max_total_time={seconds}", "-max_len=2000", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], str(corpus), *limits], read)
    atheris.Fuzz()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
