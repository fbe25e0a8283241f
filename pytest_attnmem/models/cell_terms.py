"""The formula of each cell of the table of modules and terms, as far as other sizes prove it.

A cell is a polynomial in the recipe's B and N, fitted exactly and confirmed at sizes that the fit
does not need. Its factors are written in layers, hidden and vocab where models of other sizes have
the very bytes that the formula says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations, product, starmap
from math import prod
from typing import Any, Final

from ..errors import AttnMemError, ProgramRefused
from ..formulas.interpolation import solution
from ..formulas.multivariate_fit import Sample, fit
from ..formulas.polynomial import Monomial, Polynomial
from .breakdown import table_of
from .config_sizes import renamed
from .model_memory import ModelMemory, ModelRun

#: A row and a column of the table.
Cell = tuple[str, str]
#: The sizes of the model that formulas are written in.
_SIZES: Final = ("layers", "hidden", "vocab")
#: What is added to layers and, in steps, to the width of three other models. No two sizes grow
#: alike in all of them, so that one size is not taken for another.
_OTHERS: Final = ((1, 2), (3, 1), (2, 3))
#: The most monomials of a cell whose factors are written in sizes of the model.
_MOST: Final = 3


def cell_terms(
    run: ModelRun, found: ModelMemory, progress: Callable[[str], None] = lambda text: None
) -> dict[Cell, str]:
    """Returns the formula of each cell that grows with B or N and is proved; others are left out.

    ``found`` is the memory of the run's recipe.
    """
    where = _sample(run.recipe.sizes)
    cells = _cells(found)
    base = {cell: Polynomial.constant(nbytes) for cell, nbytes in cells.items()}
    for sample in (where, *_lines(where)):
        base |= _fitted(run, sample, {cell for cell in cells if not base[cell].atoms}, progress)
    others = [*_other_models(run, found, progress)]
    known = {name: found.sizes[name] for name in _SIZES if name in found.sizes}
    return {
        cell: _written(cell, polynomial, known, others, run.recipe.sizes)
        for cell, polynomial in base.items()
        if polynomial.atoms
    }


def _cells(found: ModelMemory) -> Counter[Cell]:
    rows = table_of(found.parts).items()
    return Counter({(module, term): size for module, row in rows for term, size in row.items()})


def _sample(sizes: Mapping[str, int]) -> Sample:
    """Returns the points: axes through the recipe's own sizes, and held-out points off them."""
    symbols = tuple(name for name in ("B", "N") if name in sizes)
    base = tuple(sizes[name] for name in symbols)
    steps = {
        "B": _near(sizes.get("B", 1), (0, 1, 2, 3)),
        "N": _near(sizes.get("N", 1), (0, 32, 45, 96, 115)),
    }
    axes = tuple(
        tuple((*base[:at], size, *base[at + 1 :]) for size in steps[name])
        for at, name in enumerate(symbols)
    )
    beside = tuple(
        tuple(steps[name][place] for name in symbols) for place in (1, 2) if len(symbols) > 1
    )
    return Sample(symbols, base, axes, beside)


def _near(size: int, offsets: tuple[int, ...]) -> list[int]:
    """Returns ``size`` and sizes near it, smaller ones where there are; some are odd numbers.

    Multiples of a block alone would hide that a kernel pads to it.
    """
    if size > 2 * offsets[-1]:
        return [size - offset for offset in offsets]
    if size > 2 * len(offsets):
        return [size - place for place in range(len(offsets))]
    return [size + place for place in range(len(offsets))]


def _lines(where: Sample) -> Iterator[Sample]:
    """Yields each axis by itself: at a batch of 1, kernels may differ from those of larger ones."""
    if len(where.symbols) > 1:
        for at, name in reversed([*enumerate(where.symbols)]):
            axis = tuple((point[at],) for point in where.axes[at])
            yield Sample((name,), (where.base[at],), (axis,), ())


def _fitted(
    run: ModelRun, where: Sample, cells: set[Cell], progress: Callable[[str], None]
) -> dict[Cell, Polynomial]:
    measured: dict[tuple[int, ...], Counter[Cell]] = {}
    for point in where.points if where.symbols and cells else ():
        sizes = {**run.recipe.sizes, **where.named(point)}
        progress("terms at " + " ".join(f"{name}={size}" for name, size in sizes.items()))
        try:
            found = run.of(replace(run.recipe, sizes=sizes)).memory()
        except (AttnMemError, ProgramRefused):
            return {}
        if not found.parts:
            return {}
        measured[point] = _cells(found)
    fits = {cell: fit(where, {at: seen[cell] for at, seen in measured.items()}) for cell in cells}
    return {cell: found for cell, found in fits.items() if found is not None}


def _other_models(
    run: ModelRun, found: ModelMemory, progress: Callable[[str], None]
) -> Iterator[tuple[dict[str, int], Counter[Cell]]]:
    """Yields the sizes and cells of three models of other sizes, if the source can make them."""
    sizes, heads = found.sizes, found.sizes.get("heads", 1)
    for deeper, wider in _OTHERS:
        wanted = {
            "layers": sizes.get("layers", 0) + deeper,
            "hidden": sizes.get("hidden", 0) + wider * heads * 16,
            "vocab": sizes.get("vocab", 0) + (deeper + wider * wider) * 64,
        }
        source = _remade(run.source, {k: v for k, v in wanted.items() if k in sizes})
        if source is None:
            return
        progress("terms of a model with other layers and widths")
        try:
            other = ModelRun(source, run.recipe, run.primed).memory()
        except (AttnMemError, ProgramRefused):  # sizes that do not go together
            return
        if not other.parts:
            return
        yield {name: other.sizes[name] for name in _SIZES if name in other.sizes}, _cells(other)


def _remade(source: Any, sizes: Mapping[str, int]) -> Any:
    """Returns a source of other sizes; None if it takes none. See ``sources.source_of``."""
    if not isinstance(source, partial):
        return None
    if source.args:  # of a config
        *first, entries = source.args
        changed = renamed(entries, sizes)
        return partial(source.func, *first, {**entries, **changed}) if changed else None
    changed = renamed(source.keywords, sizes)
    return partial(source.func, **{**source.keywords, **changed}) if changed else None


def _written(
    cell: Cell,
    polynomial: Polynomial,
    known: Mapping[str, int],
    others: list[tuple[dict[str, int], Counter[Cell]]],
    point: Mapping[str, int],
) -> str:
    """Returns the formula, in the sizes of the model where those of other models prove it."""
    fixed = [f"{name}={point[name]}" for name in ("B", "N") if name in point]
    fixed = [text for text in fixed if text[0] not in polynomial.atoms]
    plain = str(polynomial) + (f" at {' '.join(fixed)}" if fixed else "")
    whole = all(factor.denominator == 1 for factor in polynomial.terms.values())
    if len(others) < len(_OTHERS) or len(polynomial.terms) > _MOST or not whole or fixed:
        return plain
    if len(polynomial.terms) == 1:
        ((monomial, factor),) = polynomial.terms.items()
        at = prod(point[atom] ** power for atom, power in monomial if atom in point)
        models = [(known, int(factor) * at), *((sizes, cells[cell]) for sizes, cells in others)]
        found = _sum(models, at)
        return " + ".join(_text(monomial, part) for part in found) if found else plain
    choices = [[*_factors(int(factor), known)] for factor in polynomial.terms.values()]
    for chosen in product(*choices):
        parts = [*zip(polynomial.terms, chosen, strict=True)]
        if all(_value(parts, {**point, **sizes}) == cells[cell] for sizes, cells in others):
            return " + ".join(starmap(_text, parts))
    return plain


def _sum(models: list[tuple[Mapping[str, int], int]], at: int) -> list[tuple[int, tuple[str, ...]]]:
    """Returns the sum of one or two products of sizes that the bytes of all models are.

    ``models`` are sizes and bytes, which are the sum ``at`` times.
    """
    names = [*models[0][0]]
    products = [one for count in (3, 2, 1, 0) for one in combinations(names, count)]
    for basis in (*((one,) for one in products), *combinations(products, 2)):
        rows = [[at * prod(sizes[name] for name in part) for part in basis] for sizes, _ in models]
        factors = solution(rows, [nbytes for _, nbytes in models])
        if factors and all(factor > 0 and factor.denominator == 1 for factor in factors):
            return [(int(factor), part) for factor, part in zip(factors, basis, strict=True)]
    return []


def _factors(factor: int, known: Mapping[str, int]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yields a factor as a number times sizes of the model, with the most sizes first."""
    for count in range(len(known), -1, -1):
        for names in combinations(known, count):
            if factor % prod(known[name] for name in names) == 0:
                yield factor // prod(known[name] for name in names), names


def _value(
    parts: list[tuple[Monomial, tuple[int, tuple[str, ...]]]], sizes: Mapping[str, int]
) -> int:
    return sum(
        number
        * prod(sizes[name] for name in names)
        * prod(sizes[atom] ** power for atom, power in monomial)
        for monomial, (number, names) in parts
    )


def _text(monomial: Monomial, chosen: tuple[int, tuple[str, ...]]) -> str:
    number, names = chosen
    atoms = [atom if power == 1 else f"{atom}^{power}" for atom, power in monomial]
    return "*".join([str(number), *atoms, *names])
