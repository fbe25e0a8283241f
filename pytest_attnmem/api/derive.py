"""``derive``: the closed form of what a function needs at its peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..closed_forms.closed_form import Derived, closed_form
from ..errors import BudgetError
from ..symbols.argument_shapes import Argument, parse_shapes
from ..units import shown

#: Pytest shows where the test called, and not our frames below it.
__tracebackhide__ = True


def derive(
    fn: Callable[..., Any],
    *shapes: Any,
    dtype: Any = "float32",
    backward: bool = False,
    backend: str = "simulated",
    sizes: Mapping[str, Sequence[int]] | None = None,
) -> Derived:
    """The peak of ``fn`` as a formula in the symbols of its arguments' shapes, ``"B H N d"``.

    It runs simulated, at several sizes; with ``backward`` the sum of its first output, or a loss
    that it returns, is taken back through autograd. The formula is of the program's tensors; with
    a profile, ``backend="simulated:H100"``, the scratch of that device's kernels is in it too.

    Raises:
        BudgetError: shapes that cannot be read, sizes that ``fn`` does not take, or a peak that no
            polynomial goes through.
        CannotSimulate: ``fn`` asks for values, or for an operator that there is no model of.
    """
    if not callable(fn):
        raise BudgetError(f"expected a function and the shapes of its arguments, got {shown(fn)}")
    kind, _, profile = backend.partition(":") if isinstance(backend, str) else ("", "", "")
    if kind != "simulated":
        raise BudgetError(
            f"derive runs simulated, not on {shown(backend)}; growth(fn, N=[…]) fits what another"
            " backend measures"
        )
    arguments = parse_shapes(shapes)
    symbols = [
        symbol
        for argument in arguments
        if isinstance(argument, Argument)
        for symbol in argument.symbols
    ]
    from ..backends.simulated.derive_program import program

    with program(fn, arguments, dtype=dtype, backward=backward, profile=profile) as run:
        return closed_form(run, symbols, sizes, scratch=bool(profile))
