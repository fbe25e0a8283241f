"""``derive``: the closed form of a function's peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..closed_forms.closed_form import closed_form
from ..closed_forms.derived import Derived
from ..errors import BudgetError
from ..measurement.installed_torch import require_rules
from ..symbols.argument_shapes import Argument, parse_shapes
from ..units import shown


def derive(
    fn: Callable[..., Any],
    *shapes: Any,
    dtype: Any = "float32",
    backward: bool = False,
    backend: str = "simulated",
    sizes: Mapping[str, Sequence[int]] | None = None,
    **numbers: Sequence[int],
) -> Derived:
    """Returns the peak of ``fn`` as a formula in the symbols of its arguments' shapes.

    A shape is written ``"B H N d"``. ``fn`` runs simulated, at several sizes. ``backward`` also
    runs the backward of its loss, or of the sum of its first output. The formula covers the
    program's tensors; with a profile, ``backend="simulated:H100"``, it includes the scratch of
    that device's kernels.

    A function that runs its own backward pass and optimizer needs no ``backward``. Other keywords
    are whole numbers that ``fn`` takes and that change it, such as its number of layers,
    ``layers=(1, 2, 3)``: the form has the symbol ``layers``, in which the peak is proved linear.

    Raises:
        BackendUnavailable: no rules are known for the installed torch.
        BudgetError: a shape cannot be read, ``fn`` does not take a size, or no polynomial fits.
        CannotSimulate: ``fn`` reads values, or calls an operator without a model.
    """
    if not callable(fn):
        raise BudgetError(f"expected a function and the shapes of its arguments, got {shown(fn)}")
    if isinstance(fn, type):
        raise BudgetError(
            f"{fn.__name__} is a class; name a function, or an instance, such as one that its"
            f" module makes: model = {fn.__name__}(…)"
        )
    instead = "growth(fn, N=[…]) fits measurements of another backend"
    kind, _, profile = backend.partition(":") if isinstance(backend, str) else ("", "", "")
    if kind != "simulated":
        raise BudgetError(f"derive runs simulated, not on {shown(backend)}; {instead}")
    arguments = parse_shapes(shapes)
    symbols = [
        symbol
        for argument in arguments
        if isinstance(argument, Argument)
        for symbol in argument.symbols
    ]
    _check_numbers(numbers, symbols)
    require_rules("derive cannot answer", instead)
    from ..backends.simulated.session.derive_program import program

    given = {"dtype": dtype, "backward": backward, "profile": profile, "numbers": (*numbers,)}
    with program(fn, arguments, **given) as run:
        return closed_form(run, symbols, sizes, scratch=bool(profile), numbers=numbers)


def _check_numbers(numbers: Mapping[str, Any], symbols: Sequence[str]) -> None:
    """Checks the keywords that are numbers of the program.

    Raises:
        BudgetError: one is not three whole numbers or more, or is the symbol of a shape.
    """
    for name, values in numbers.items():
        listed = isinstance(values, (list, tuple, range)) and 3 <= len({*values}) <= 20
        if not listed or not all(type(number) is int and number >= 1 for number in values):
            raise BudgetError(
                f"derive has no option {name}={shown(values)}; a number that changes the function"
                f" needs three values or more, {name}=(1, 2, 3): two determine a line, and the"
                " others confirm it"
            )
        if name in symbols:
            raise BudgetError(f"{name} is a symbol of a shape; give the number another name")
