"""The traceback of a program's error, as the program has it where nothing measures.

On a device that this package stands for, a program's call passes through our frames before it
fails; a reader of the traceback looks for a line of the program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from traceback import StackSummary
from types import TracebackType
from typing import Final

from .errors import causes

_HERE: Final = str(Path(__file__).parent) + os.sep
_KERNELS: Final = os.path.join(_HERE, "kernels", "")  # programs, as a user's are
#: Where PyTorch looks for modes and subclasses that want a call: it asks ours.
_ASKING: Final = os.path.join("torch", "overrides.py")
#: What runs below our frames.
_LIBRARIES: Final = ("torch", "numpy", "sympy", "triton")
_PYTHON: Final = (os.path.join(os.path.dirname(os.__file__), ""), "<frozen ")
#: The frames of a user's code that are shown after a message.
_LAST: Final = 3
#: What runs above a program.
_RUNNERS: Final = ("_pytest", "pluggy")


def hide_own_frames(error: BaseException) -> None:
    """Leaves the program's frames in the tracebacks of an error, its causes and its group.

    PyTorch's frames stay where the program calls PyTorch, and go where only we do. An error of
    which no frame is the program's keeps all: it is ours.
    """
    for each in causes(error):
        each.__traceback__ = _of_program(each.__traceback__)


def program_lines(error: BaseException | None) -> list[str]:
    """Returns a user's own last lines in the traceback of an error, as Python prints them.

    The code of installed packages, and the kernels of this one, are no user's.
    """
    known = (*_folders((*_LIBRARIES, *_RUNNERS)), *_PYTHON, _HERE)
    frames = [
        (entry.tb_frame, entry.tb_lineno)
        for entry in _entries(error.__traceback__ if error is not None else None)
        if not _path(entry).startswith(known) and "-packages" not in _path(entry)
    ]
    return StackSummary.extract(iter(frames[-_LAST:]), capture_locals=False).format()


def _of_program(traceback: TracebackType | None) -> TracebackType | None:
    libraries, runners = _folders(_LIBRARIES), _folders(_RUNNERS)
    shown, below, inside, found = list[TracebackType](), list[TracebackType](), False, False
    for entry in _entries(traceback):
        path = _path(entry)
        if path.startswith(_HERE) and not path.startswith(_KERNELS):
            inside = True
            _drop_question(shown, libraries)
            continue
        of_python = path.startswith(_PYTHON) and "site-packages" not in path
        known = of_python or path.startswith(libraries)
        if inside and known:
            below.append(entry)
            continue
        found = found or not (known or path.startswith(runners))
        shown += [*below, entry]
        below, inside = [], False
    if not found:
        return traceback
    after: TracebackType | None = None
    for entry in reversed(shown):
        after = TracebackType(after, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return after


def _drop_question(shown: list[TracebackType], libraries: tuple[str, ...]) -> None:
    """Removes the last frames if PyTorch asks our modes there, with its function that asks."""
    asks = False
    while shown and _path(shown[-1]).endswith(_ASKING):
        shown.pop()
        asks = True
    if asks and shown and _path(shown[-1]).startswith(libraries):
        shown.pop()


def _path(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _folders(modules: tuple[str, ...]) -> tuple[str, ...]:
    files = (getattr(sys.modules.get(name), "__file__", None) for name in modules)
    return tuple(os.path.join(os.path.dirname(file), "") for file in files if file)
