"""What a regression consists of: the difference of two closed forms, and the tensors that are new.

``+4*B*H*N^2: one more float32 B·H·N·N tensor, masked_fill at attn.py:14``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod

from . import tensors
from .baseline import Entry
from .errors import FormulaError
from .measurement import Held
from .polynomial import ONE, Monomial, Polynomial, expand, times

#: As many are remembered, and named of one kind.
_REMEMBERED = 16
_NAMED = 3
_WORDS = ("no", "one", "two", "three", "four")


def labels(held: Sequence[Held], symbols: Mapping[str, int]) -> tuple[str, ...]:
    """The largest tensors without what changes with sizes or lines: ``softmax float32 B·H·N·N``."""
    return tuple(_label(tensor, symbols) for tensor in held[:_REMEMBERED])


def difference(
    entry: Entry,
    now: Polynomial,
    sizes: Mapping[str, int],
    held: Sequence[Held],
    symbols: Mapping[str, int],
) -> str:
    """What there is more of than in ``entry``, in one line; empty where its form is of no use.

    ``sizes`` are the test's own of what the forms are in, ``symbols`` all that are known of it,
    and ``held`` is what is alive at the peak now.
    """
    try:
        before = expand(entry.formula)
        if before.value(sizes) != entry.nbytes:
            return ""
        change, varied = _change(before, now, sizes)
    except (FormulaError, ValueError, ArithmeticError):  # written by hand
        return ""
    text = str(change)
    if not change.terms:
        return ""
    text = text if text.startswith("-") else f"+{text}"
    fresh = [*_fresh(held, entry.held, symbols)]
    named = [*_named(change, fresh, varied, symbols)]
    return f"{text}: {'; '.join(named)}" if named else text


def _change(
    before: Polynomial, now: Polynomial, sizes: Mapping[str, int]
) -> tuple[Polynomial, dict[str, int]]:
    """The difference, and the sizes of what it is in.

    A symbol that only one of them is in may be one that the other could not be varied in: then
    the difference is simpler at its size.
    """
    both = {name: (before.degree(name), now.degree(name)) for name in sizes}
    varied = {name: size for name, size in sizes.items() if any(both[name])}
    settled = {name: size for name, size in varied.items() if not all(both[name])}
    plain, simpler = now - before, expand(str(now), settled) - expand(str(before), settled)
    if len(simpler.terms) >= len(plain.terms):
        return plain, varied
    return simpler, {name: size for name, size in varied.items() if name not in settled}


def _label(tensor: Held, symbols: Mapping[str, int]) -> str:
    written = tensors.dimensions(tensor.shape, symbols) or str([*tensor.shape])
    return f"{tensor.op} {tensor.dtype} {written}"


def _fresh(
    held: Sequence[Held], before: Sequence[str], symbols: Mapping[str, int]
) -> Iterator[Held]:
    """Those that the entry does not have."""
    known = Counter(before)
    for tensor in held:
        label = _label(tensor, symbols)
        if known[label]:
            known[label] -= 1
        else:
            yield tensor


def _named(
    change: Polynomial, fresh: Sequence[Held], sizes: Mapping[str, int], symbols: Mapping[str, int]
) -> Iterator[str]:
    """For each term that came, the first kind of new tensors that it is the bytes of."""
    for monomial, coefficient in change.ordered():
        alike: dict[tuple[str, str], list[Held]] = {}
        for tensor in fresh:
            written = tensors.dimensions(tensor.shape, symbols)
            if written and _monomial(written, sizes) == monomial != ONE:
                alike.setdefault((tensor.dtype, written), []).append(tensor)
        for (dtype, written), group in alike.items():
            size = prod(sizes[symbol] ** power for symbol, power in monomial)
            count = coefficient / Fraction(group[0].nbytes, size)
            if count.denominator == 1 and count > 0:
                yield _more(int(count), f"{dtype} {written}", group)
                break


def _monomial(written: str, sizes: Mapping[str, int]) -> Monomial:
    """``B·H·N·N`` in those symbols that were varied: ``N^2``."""
    monomial = ONE
    for name in written.split("·"):
        if name in sizes:
            monomial = times(monomial, ((name, 1),))
    return monomial


def _more(count: int, kind: str, group: Sequence[Held]) -> str:
    word = _WORDS[count] if count < len(_WORDS) else str(count)
    plural = "" if count == 1 else "s"
    places = ", ".join(f"{one.op} at {one.where}" for one in group[: min(count, _NAMED)])
    return f"{word} more {kind} tensor{plural}, {places}"
