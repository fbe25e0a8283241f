"""The variables of the functions that run, for those who hold a tensor at a peak."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Final

from ...measurement.project import LIBRARY, standing
from .owners import LOCAL, Owner
from .tensor_origin import is_foreign

#: The references to a frame's dict: of the frame, a variable and an argument.
_NOT_SHARED: Final = 3


def running_frames() -> dict[FrameType, None]:
    """Returns the frames that run, on any thread, outermost first."""
    frames: list[FrameType] = []
    for frame in sys._current_frames().values():
        one: FrameType | None = frame
        while one is not None:
            frames.append(one)
            one = one.f_back
    return dict.fromkeys(reversed(frames))


def local_variables(running: Iterable[FrameType]) -> dict[int, list[Owner]]:
    """Returns the variables of the program's functions that run, by the id of their value.

    Python before 3.13 keeps the values in a dict that lives as long as the frame: it is emptied.
    """
    found: dict[int, list[Owner]] = defaultdict(list)
    for frame in running:
        code = frame.f_code
        if not code.co_flags & CO_OPTIMIZED:
            continue
        if is_foreign(code.co_filename) or standing(code.co_filename) == LIBRARY:
            continue
        values = frame.f_locals
        for name, value in values.items():
            found[id(value)].append(Owner(LOCAL, name, f"the local {{}} of {code.co_name}"))
        if type(values) is dict and sys.getrefcount(values) <= _NOT_SHARED:
            values.clear()
    return found
