"""The parts of a regression: the difference of two closed forms, and the tensors that are more.

``+4*B*H*N^2: one more float32 [B, H, N, N], masked_fill at attn.py:14``

Only proved parts are listed: new tensors, removed tensors, and bytes that kernels need outside
tensors add up to the difference, to the byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..errors import FormulaError
from ..formulas.polynomial import Polynomial, expand
from ..measurement.held import Held
from ..measurement.tensor_groups import ROLES
from ..measurement.tensor_kinds import Form, Kind, Known, kind, kinds
from ..measurement.traced_tensors import TracedTensors
from ..units import format_size
from .entries import Entry

#: The most forms of tensors that are listed, and the most source lines of each.
_LISTED = 3
#: A peak that lost one part in so many of the baseline's bytes is at another moment.
_MUCH = 8
_MOVED = "at that of the baseline"
_NOTHING_NEW = "nothing in the list is new; the baseline has the same tensors"
_WORDS = ("no", "one", "two", "three", "four")


class Difference(NamedTuple):
    """The difference to a baseline's entry."""

    text: str
    """One line; empty if nothing is proved."""
    more: tuple[Held, ...] = ()
    """The new tensors, if it is proved which ones are new."""


def difference(
    entry: Entry,
    nbytes: int,
    form: Polynomial | None,
    sizes: Mapping[str, int],
    held: Sequence[Held],
    symbols: Mapping[str, int],
    traced: TracedTensors | None = None,
) -> Difference:
    """Returns the difference between ``nbytes`` and ``entry``.

    ``form`` is ``nbytes`` in the symbols of ``sizes``, which are the test's own; ``symbols`` are
    all symbols of the test, and ``held`` are the tensors alive at the peak now. With ``traced``,
    all tensors of the run, a peak at another moment is compared with the moment that the baseline's
    peak was at.
    """
    before = kinds(entry.held, symbols)
    change = _change(entry, form, sizes, before is not None)
    if before is None:
        return Difference(change)
    there = () if traced is None else _elsewhere(held, traced, before)
    at_peak = _at_peak(change, nbytes - entry.nbytes, held, before)
    if traced is None or not there:
        return at_peak
    if not any(_Forms(there, before).changes()) and at_peak.text:
        return at_peak._replace(
            text=f"{at_peak.text}; at the moment of the baseline nothing changed"
        )
    return Difference(_moved(traced, there, before))


def _at_peak(change: str, grown: int, held: Sequence[Held], before: Known) -> Difference:
    """Returns the difference of the tensors alive at both peaks."""
    forms = _Forms(held, before)
    parts, outside = [*forms.changes()], grown - forms.grown
    if not parts and grown > 0:
        return Difference(f"{change or f'+{format_size(grown)}'}: {_NOTHING_NEW}")
    if not parts or 2 * abs(outside) > grown:
        return Difference(change)
    if outside:
        way = "more" if outside > 0 else "less"
        parts.append(f"and {format_size(abs(outside))} {way} outside tensors")
    return Difference(f"{change or f'+{format_size(grown)}'}: {'; '.join(parts)}", forms.more())


def _elsewhere(held: Sequence[Held], traced: TracedTensors, before: Known) -> tuple[Held, ...]:
    """Returns the tensors at the baseline's moment, if the peak is at another one now.

    It is another one if much of what was alive then is alive together at a moment of this run, and
    not at its peak. A line that made a tensor of the baseline's peak, and makes the last one of
    this peak, is at the same moment.
    """
    last = dict(traced.allocated).get(max(traced.at_peak, default=-1))
    same = last is not None and kind(last).made in {one.made for one in before.counts}
    if same or not _Forms(held, before).lost:
        return ()
    there = traced.most_like(before.counts)
    whole = sum(kind.nbytes * count for kind, count in before.counts.items())
    found, at_peak = _shared(there, before), _shared(held, before)
    return there if 2 * found >= whole and _MUCH * (found - at_peak) >= whole else ()


def _shared(held: Iterable[Held], before: Known) -> int:
    """Returns the bytes of the tensors that the baseline has too."""
    now = Counter(map(kind, held))
    return sum(one.nbytes * min(count, before.counts[one]) for one, count in now.items())


def _moved(traced: TracedTensors, there: Sequence[Held], before: Known) -> str:
    """Returns the text of a peak that moved: its new moment, and what changed at the old one."""
    numbers = dict(traced.allocated)
    last = numbers.get(max(traced.at_peak, default=-1))
    now = f", {last.op} at {last.where}" if last is not None and last.where else ""
    forms = _Forms(there, before)
    parts = [*forms.changes()]
    sign = "-" if forms.grown < 0 else "+"
    grown = f"{sign}{format_size(abs(forms.grown))}: {'; '.join(parts)}"
    told = grown if parts else "nothing changed"
    return f"the peak is at another moment now{now}; {_MOVED} {told}"


class _Forms:
    """The tensors by form, now and in the baseline."""

    def __init__(self, held: Sequence[Held], before: Known) -> None:
        self._now: dict[Kind, list[Held]] = {}
        for tensor in held:
            self._now.setdefault(kind(tensor), []).append(tensor)
        self._before = before.counts
        self._dims = {**before.dims}
        self._change: Counter[Form] = Counter()
        for known, tensors in self._now.items():
            self._change[known.form] += len(tensors)
            if tensors[0].dims:
                self._dims[known.form] = ", ".join(tensors[0].dims)
        for known, count in self._before.items():
            self._change[known.form] -= count

    @property
    def grown(self) -> int:
        """Returns the bytes of all tensors now, minus the bytes of all tensors before."""
        return sum(count * nbytes for (_, _, nbytes), count in self._change.items())

    @property
    def lost(self) -> bool:
        """Returns True if a form has fewer tensors now."""
        return any(count < 0 for count in self._change.values())

    def changes(self) -> Iterator[str]:
        """Yields a text for each form that changed: more tensors first, then fewer."""
        changed = sorted(
            ((form, count) for form, count in self._change.items() if count),
            key=lambda one: (one[1] < 0, -abs(one[1]) * one[0][2]),
        )
        for form, count in changed[:_LISTED]:
            yield _counted(count, self._description(form), self._origin(form, count))
        if len(changed) > _LISTED:
            others = len(changed) - _LISTED
            yield f"and {others} other shape{'' if others == 1 else 's'}"

    def more(self) -> tuple[Held, ...]:
        """Returns the new tensors, as far as it is known which ones are new."""
        return tuple(
            tensor
            for form, count in self._change.items()
            if count > 0
            for tensor in self._fresh(form, count)
        )

    def _fresh(self, form: Form, count: int) -> list[Held]:
        """Returns the ``count`` new tensors of a form; empty if it is not clear which ones are new.

        A tensor that another line makes now, in place of an old tensor, is not new.
        """
        found: list[Held] = []
        for known, tensors in self._now.items():
            more = len(tensors) - self._before[known]
            if known.form != form or more <= 0:
                continue
            if more < len(tensors) and len({one.where for one in tensors}) > 1:
                return []
            found += tensors[:more]
        return found if len(found) == count else []

    def _description(self, form: Form) -> str:
        dtype, shape, nbytes = form
        if not dtype:
            return f"block of {format_size(nbytes)}"
        return f"{dtype} [{self._dims.get(form, ', '.join(map(str, shape)))}]"

    def _origin(self, form: Form, count: int) -> str:
        fresh = self._fresh(form, count) if count > 0 else []
        places = dict.fromkeys(ROLES.get(one.role, f"{one.op} at {one.where}") for one in fresh)
        listed = [*places][:_LISTED]
        return ", ".join(listed) + (
            f" and {len(places) - _LISTED} more lines" * (len(places) > _LISTED)
        )


def _counted(count: int, description: str, origin: str) -> str:
    number = abs(count)
    word = _WORDS[number] if number < len(_WORDS) else f"{number:,}"
    way = "more" if count > 0 else "less" if number == 1 else "fewer"
    return f"{word} {way} {description}" + (f", {origin}" if origin else "")


def _change(entry: Entry, now: Polynomial | None, sizes: Mapping[str, int], counted: bool) -> str:
    """Returns the difference of two forms, ``+4*B*H*N^2``; empty if one cannot be used."""
    if now is None:
        return ""
    try:
        before = expand(entry.formula)
        if before.value(sizes) != entry.nbytes:
            return ""
        # Entries without counts may lack a symbol for which no form was found.
        if not counted and {*before.atoms} != {*now.atoms}:
            return ""
        change = _simpler(before, now, sizes)
    except (FormulaError, ValueError, ArithmeticError):  # written by hand
        return ""
    text = str(change)
    if not change.terms:
        return ""
    return text if text.startswith("-") else f"+{text}"


def _simpler(before: Polynomial, now: Polynomial, sizes: Mapping[str, int]) -> Polynomial:
    """Returns the difference, with a symbol replaced by its size where this is simpler.

    A symbol that only one form has may be one that the runs of the other could not vary.
    """
    fixed = {
        name: size
        for name, size in sizes.items()
        if bool(before.degree(name)) != bool(now.degree(name))
    }
    plain, simpler = now - before, expand(str(now), fixed) - expand(str(before), fixed)
    return plain if len(simpler.terms) >= len(plain.terms) else simpler
