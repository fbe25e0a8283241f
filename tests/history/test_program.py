"""A program's public functions, and what is refused."""

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.history.program import program

TEXT = """
import pytest

@pytest.fixture
def net(): pass

def _train(): pass

@pytest.mark.parametrize("N", [1])
def plain(N): pass

def flash(): pass
"""


def test_public_functions_are_run_by_name_from_a_copy(tmp_path):
    path = tmp_path / "bench.py"
    path.write_text(TEXT, "utf-8")
    folder = tmp_path / "copy"
    folder.mkdir()
    made = program(path, folder)
    assert made.names == ("plain", "flash")
    assert made.path.read_text("utf-8") == TEXT
    assert made.words()[-2:] == (f"{folder}/bench.py::plain", f"{folder}/bench.py::flash")
    assert made.words(["plain[1] [inner] (retained)"])[-1:] == (f"{folder}/bench.py::plain",)
    path.write_text(TEXT + "\n", "utf-8")
    assert program(path, folder).digest != made.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "--program: cannot read {path}: No such file or directory"),
        ("def f(:", "--program: {path}:1: invalid syntax"),
        ("x = 1", "--program: {path} has no public function; each one is a row"),
    ],
)
def test_a_wrong_program_is_one_line(tmp_path, text, message):
    path = tmp_path / "b.py"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(AttnMemError) as error:
        program(path, tmp_path)
    assert str(error.value) == message.format(path=path)
