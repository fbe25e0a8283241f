"""``derive``: the closed form of a function's peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..closed_forms.closed_form import Derived, closed_form
from ..errors import BudgetError
from ..measurement.installed_torch import require_rules
from ..symbols.argument_shapes import Argument, parse_shapes
from ..units import shown

#: Pytest shows the line of the test, not our frames below it.
__tracebackhide__ = True


def derive(
    fn: Callable[..., Any],
    *shapes: Any,
    dtype: Any = "float32",
    backward: bool = False,
    backend: str = "simulated",
    sizes: Mapping[str, Sequence[int]] | None = None,
) -> Derived:
    """Returns the peak of ``fn`` as a formula in the symbols of its arguments' shapes.

    A shape is written ``"B H N d"``. ``fn`` runs simulated, at several sizes. ``backward`` also
    runs the backward of its loss, or of the sum of its first output. The formula covers the
    program's tensors; with a profile, ``backend="simulated:H100"``, it includes the scratch of
    that device's kernels.

    Raises:
        BackendUnavailable: no rules are known for the installed torch.
        BudgetError: a shape cannot be read, ``fn`` does not take a size, or no polynomial fits.
        CannotSimulate: ``fn`` reads values, or calls an operator without a model.
    """
    if not callable(fn):
        raise BudgetError(f"expected a function and the shapes of its arguments, got {shown(fn)}")
    kind, _, profile = backend.partition(":") if isinstance(backend, str) else ("", "", "")
    if kind != "simulated":
        raise BudgetError(
            f"derive runs simulated, not on {shown(backend)}; growth(fn, N=[…]) fits measurements"
            " of another backend"
        )
    arguments = parse_shapes(shapes)
    symbols = [
        symbol
        for argument in arguments
        if isinstance(argument, Argument)
        for symbol in argument.symbols
    ]
    instead = "growth(fn, N=[…]) fits measurements of another backend"
    require_rules("derive cannot answer", instead)
    from ..backends.simulated.derive_program import program

    with program(fn, arguments, dtype=dtype, backward=backward, profile=profile) as run:
        return closed_form(run, symbols, sizes, scratch=bool(profile))
