"""What CUDA checks before it runs a call, and PyTorch's rules of shapes do not.

A call that CUDA refuses must not pass here, whatever the words of its error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .dimension_limits import check_of_dimensions
from .dtypes.refusals import Refusals
from .kernel_checks import check_of_kernel
from .nondeterministic_calls import check_of_algorithms
from .number_checks import check_of_numbers
from .overlaps import check_of_writes
from .shape_checks import check_of_shapes
from .written_shapes import check_written_shape, writes_pointwise


class CallChecks:
    """The checks of each operator that has run."""

    def __init__(self) -> None:
        self._refusals = Refusals()
        self._found: dict[Any, _Checks] = {}

    def of(self, func: Any) -> _Checks:
        """Returns the checks of an operator's calls."""
        found = self._found.get(func)
        if found is None:
            found = self._found[func] = _Checks(self._checks(func))
        return found

    def _checks(self, func: Any) -> list[Callable[..., Any]]:
        dtypes = self._refusals.of(func)
        checks = (
            *(check_of_writes(func), check_of_shapes(func), check_of_numbers(func)),
            *(check_of_algorithms(func), check_of_dimensions(func), check_of_kernel(func)),
            _fits if writes_pointwise(func) else None,
            None if dtypes is None else dtypes.check,
        )
        return [check for check in checks if check is not None]


class _Checks:
    """The checks of one operator."""

    def __init__(self, checks: list[Callable[..., Any]]) -> None:
        self._checks = checks

    def __call__(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        refused: Callable[[str], Exception],
    ) -> bool:
        """Returns False for a call that CUDA may refuse; ``refused`` is told so.

        Raises:
            Exception: CUDA refuses it; the error is PyTorch's.
        """
        answers = [check(args, kwargs, refused) for check in self._checks]
        return False not in answers


def _fits(args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any) -> None:
    check_written_shape(args, kwargs)
