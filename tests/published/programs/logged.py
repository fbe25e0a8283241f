"""Training programs that are printed in their own logs, which also say what they peaked at.

Such a log is the text of the program, a line of ``=``, the versions and the GPU, and what the
program printed. Here the text is cut out of a log of a checkout and is run again until it prints
its peak. What it prints of its model and of its batch must be what the log says. The environment's
variables are those that the log or its README states. What it reads from disk is zeros, because no
byte depends on the tokens; ``sentencepiece``, where it is used, is stood for by a class that only
counts. There are fewer iterations, and fewer batches of validation, of which the last is as short
as it was.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

HEADER = 256 * 4
#: Tokens of a batch of validation, of all ranks.
BATCH = 2**19
PEAK = re.compile(r"peak memory allocated: (\d+) MiB reserved: (\d+) MiB")
#: What must be as in the log; iterations follow it.
STATED = re.compile(
    r"^(model_params|world_size|mlp_hidden|train_batch_tokens):.*?(?= iterations|$)", re.M
)


class Ended(BaseException):
    """What a program is ended by."""


class Output:
    """A standard output that ends the program after a text."""

    def __init__(self, is_last: Callable[[str], bool]) -> None:
        self.is_last = is_last

    def write(self, text: str) -> int:
        """Writes text as an error is written."""
        sys.stderr.write(text)
        if self.is_last(text):
            raise Ended
        return len(text)

    def flush(self) -> None:
        """Does nothing: an error is written at once."""


class Tokenizer:
    """A ``SentencePieceProcessor`` of words of one letter."""

    def __init__(self, **_: Any) -> None:
        self.size = int(os.environ.get("VOCAB_SIZE", "1024"))

    def vocab_size(self) -> int:
        return self.size

    def is_control(self, _: int) -> bool:
        """Returns False, as the others: there are only words."""
        return False

    is_unknown = is_unused = is_byte = is_control

    def id_to_piece(self, _: int) -> str:
        return "a"


def stand_in(name: str, **members: Any) -> None:
    """Makes a module in the place of one that is not installed."""
    module = sys.modules[name] = ModuleType(name)
    module.__dict__.update(members)


def tokens(path: Path, count: int) -> None:
    """Makes a file of so many tokens of 16 bits, after a header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = torch.zeros(256, dtype=torch.int32)
    header[:3] = torch.tensor([20240520, 1, count])
    path.write_bytes(header.numpy().tobytes())
    os.truncate(path, HEADER + 2 * count)  # a file with a hole


def run_until(script: str, is_last: Callable[[str], bool]) -> None:
    """Runs a program until it prints a text that is the last."""
    before, output = sys.stdout, Output(is_last)
    sys.stdout = output  # type: ignore[assignment]
    try:
        runpy.run_path(script, run_name="__main__")
    except Ended:
        pass
    finally:
        sys.stdout = before


def peak(log: str, settings: str = "", iterations: int = 3) -> dict[str, int]:
    """Returns the peaks that a program prints, as it rounds them: down to a MiB.

    ``log`` is a path in the checkout; ``settings`` are variables of the environment.
    """
    path = next(path for folder in sys.path if (path := Path(folder, log)).is_file())
    program, _, printed = path.read_text("utf-8").partition("\n" + "=" * 100 + "\n")
    program = re.sub(r"(?<=\bnum_iterations = )\d+", str(iterations), program)
    stated = re.search(r"^val_loader:.* tokens:(\d+)", printed, re.M)
    validation = 2 * BATCH + int(stated[1]) % BATCH if stated else 2**24
    found: dict[str, int] = {}

    def is_last(text: str) -> bool:
        for one in STATED.finditer(text):
            if one[0] not in printed:
                raise ValueError(f"the log does not say {one[0]}")
        if match := PEAK.search(text):
            found.update(allocated=int(match[1]) << 20, reserved=int(match[2]) << 20)
        return bool(match)

    home, folder = Path.cwd(), Path(tempfile.mkdtemp())
    data = folder / "data" / "fineweb10B"
    tokens(data / "fineweb_train_000000.bin", 2**23)
    tokens(data / "fineweb_val_000000.bin", validation + 1)
    (folder / "train.py").write_text(program, "utf-8")
    (folder / "nvidia-smi").symlink_to(shutil.which("true") or "")
    stand_in("sentencepiece", SentencePieceProcessor=Tokenizer)
    os.environ |= {
        "PATH": os.pathsep.join([str(folder), os.environ["PATH"]]),
        "DATA_PATH": str(data),
        "ITERATIONS": str(iterations),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        **dict(setting.split("=") for setting in settings.split()),
    }
    os.chdir(folder)
    try:
        run_until(str(folder / "train.py"), is_last)
    finally:
        os.chdir(home)
        shutil.rmtree(folder)
    return found
