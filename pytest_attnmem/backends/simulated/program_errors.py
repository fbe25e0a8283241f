"""The errors of a simulated program: one line, with the call and its place."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...errors import CannotSimulate
from ..ranks.agreement import checks_agreement
from ..tracing.dispatch_tracker import caller
from .op_rules import has_rule
from .printing import PRINTING

#: What C++ code says that asks for the device itself.
NOT_LINKED: Final = "not linked with support for"
#: What C++ code says that reads the data of a tensor.
_OF_DATA: Final = (
    *("Cannot access data pointer of Tensor", "its data is not allocated yet"),
    'to a storage on different device "meta"',
)
#: What it says that takes a tensor for a number, which must be on the CPU.
_OF_NUMBER: Final = "pybind_utils.cpp"
#: What it says without the kernels of CUDA, which a simulation has none of.
_ABSENT: Final = re.compile(
    "Could not run '(aten::[a-z0-9_]+)[^']*' with arguments from the 'CUDA'"
)


class ProgramErrors:
    """The errors of one window; the first of them is why its numbers are not enforced."""

    def __init__(self) -> None:
        self.last_raised = ""
        """The text of the error of the operator that failed last."""
        self._texts: list[str] = []

    @property
    def first(self) -> str | None:
        """Returns the text of the first error, or None."""
        return self._texts[0] if self._texts else None

    @property
    def texts(self) -> Sequence[str]:
        """Returns the texts of all errors."""
        return self._texts

    def raised(self, error: BaseException) -> None:
        """Keeps the text of the error of an operator."""
        self.last_raised = str(error)

    def clear(self) -> None:
        """Begins a window."""
        self._texts.clear()

    def record(self, text: str) -> CannotSimulate:
        """Keeps an error and returns it."""
        self._texts.append(text)
        return CannotSimulate(text)

    def assumed(self, assumption: str) -> None:
        """Records that the program reads a value that rests on an assumption.

        PyTorch's own checks that ranks agree pass by design.
        """
        if not checks_agreement(sys._getframe(1)):
            self._texts.append(f"a value was read{at()}: {assumption}")

    def unknown_values(self, call: str, function: Any, why: str) -> CannotSimulate:
        """Returns the error for ``call``, or ``function``, which reads values that nobody knows."""
        if call == PRINTING and self._texts:  # an error report prints the tensors of its error
            return CannotSimulate(self._texts[0])
        return self.record(
            f"{call or _named(function)} needs the values of a tensor{at()}, which are not known"
            f"{f': {why}' if why else ''}; use backend='cpu' for this test"
        )


def at() -> str:
    """Returns `` at attn.py:5``, the line of the program, or an empty text."""
    where = caller()
    return f" at {where}" if where else ""


def _named(function: Any) -> str:
    name = getattr(function, "__name__", None)
    if name is None:
        return "this"
    owner = getattr(function, "__objclass__", None)
    return f"Tensor.{name}" if owner is not None or name.startswith("__") else f"torch.{name}"


def refuse_cpp(error: RuntimeError, func: Any, refused: Callable[[str], CannotSimulate]) -> None:
    """Raises the refusal of a function whose C++ code failed for what a simulated tensor lacks.

    Raises:
        CannotSimulate: it asked for the data of a tensor, or for a kernel of CUDA.
    """
    text = str(error)
    if any(part in text for part in _OF_DATA):
        raise refused(
            f"{_named(func)}{at()}, whose C++ code reads the data of a tensor, cannot be simulated;"
            " use backend='cpu' for this test"
        ) from None
    absent = _ABSENT.match(text)
    if _OF_NUMBER in text or (absent and has_rule(absent[1].replace("::", "."))):
        raise refused(
            f"{_named(func)}{at()}, whose C++ code needs a CUDA device, cannot be simulated; use"
            " backend='null' or 'cuda'"
        ) from None
