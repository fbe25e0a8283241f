"""Finds the strongest promise that each of the largest tests keeps, and tries it in pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..baselines.entries import Entries, Entry, Key, State, compare, tolerance_of
from ..baselines.file import load, update
from ..budgets.formula_and_contract import split
from ..budgets.growth_contract import is_contract
from ..budgets.growth_fit import Growth
from ..budgets.growth_judgement import Answer
from ..budgets.verdict import Outcome
from ..errors import AttnMemError, FormulaError
from ..formulas.polynomial import ONE, Monomial, Polynomial, expand
from ..measurement.tensor_kinds import Known, kinds
from ..report.record import Record, from_dict
from ..report.session_diff import is_measured
from ..units import excerpt, format_count
from .init_edits import can_be_marked

_PLUGIN: Final = "pytest_attnmem.plugin.init_session"
#: Exit codes of a session that ran: all passed, some failed, or errors stopped the collection of
#: some files, none collected.
_COMPLETED: Final = (0, 1, 2, 5)
_USAGE_ERROR: Final = 4


@dataclass(frozen=True, slots=True)
class Promise:
    """What a test function can promise."""

    where: str
    """The function: its file from the rootdir, and its line."""
    test: str
    """Its largest test."""
    peak: int
    kind: str = ""
    """``formula``, ``contract`` or ``baseline``; empty if it keeps none."""
    limit: str = ""
    """The limit of its marker; empty for a baseline."""
    why: str = ""
    """Why it keeps no promise."""
    largest: int = 0
    """The bytes of its largest tensor at the peak."""
    over: int = 0
    """By how much the test would exceed the promise with one more such tensor."""
    entries: Entries = field(default_factory=dict)
    """Its entries of a baseline."""


class Recorded(NamedTuple):
    """What a session with a new baseline found."""

    entries: Entries
    forms: Mapping[str, str]
    """Test that can run at other sizes → its form in all of them; empty if none was fitted here."""
    reasons: Mapping[str, str]
    """Test → why it has no entry, or empty."""


class Suite:
    """Runs sessions of pytest with the user's arguments."""

    def __init__(self, folder: Path, arguments: Sequence[str], show: Callable[[str], None]) -> None:
        self._folder = folder
        self._arguments = arguments
        self._show = show
        self.rootdir = self.baseline = Path()
        self.places: tuple[str, ...] = ()
        """The devices, or the backends that stand for them, that measured tests."""
        self.left_out: dict[str, str] = {}
        """Test without a promise, or module → why it was not measured."""

    def measure(self) -> list[Record]:
        """Returns the rows of all tests that keep no promise yet; none if all tests keep one.

        Raises:
            AttnMemError: no such test could be measured, or no test ran.
        """
        answer = self._run(None)
        self.rootdir, self.baseline = Path(answer["rootdir"]), Path(answer["baseline"])
        rows, promised = [*_bodies(answer)], {*answer["promised"]}
        problems = answer["problems"].items()
        self.left_out = {
            **{test: f"did not pass: {why}" for test, why in problems if test not in promised},
            **{row.nodeid: row.reason for row in rows if row.value != 0 and not is_measured(row)},
        }
        measured = [row for row in rows if _peak(row) and row.nodeid not in self.left_out]
        self.places = (*dict.fromkeys(row.place for row in measured),)
        if measured or ((rows or promised) and not self.left_out):
            return measured
        if not self.left_out:
            raise AttnMemError("no test ran; name the tests, as in attnmem init tests")
        test, why = next(iter(self.left_out.items()))
        rest = len(self.left_out) - 1
        more = f"; and {rest} more" if rest else ""
        raise AttnMemError(
            f"no test without a budget was measured: {test}: {excerpt(why, 200)}{more}"
        )

    def record(self, places: Sequence[str], fitted: Sequence[str]) -> Recorded:
        """Returns baseline entries of these functions, and forms of the tests to fit."""
        self._show(f"fitting the memory of {format_count(len(places), 'test')}")
        file = self._folder / "baseline.json"
        words = ("--attnmem-update=all", f"--attnmem-baseline={file}", "--attnmem-strict=off")
        answer = self._run(dict.fromkeys(places, ""), *words, fitted=fitted)
        reasons = {row.nodeid: row.reason for row in _bodies(answer)}
        return Recorded(load(file) if file.exists() else {}, answer["forms"], reasons)

    def prove(self, limits: Mapping[str, str], entries: Entries) -> dict[str, list[Record]]:
        """Returns the rows of functions held to limits, or to entries without one, by function."""
        self._show(f"trying {format_count(len(limits), 'promise')}")
        file = self._folder / "proof.json"
        file.unlink(missing_ok=True)
        update(file, lambda _: entries, create=True)
        answer = self._run(limits, f"--attnmem-baseline={file}", "--attnmem-strict=off")
        rows: dict[str, list[Record]] = defaultdict(list)
        for row in _bodies(answer):
            rows[row.where].append(row)
        return rows

    def _run(
        self, limits: Mapping[str, str] | None, *words: str, fitted: Sequence[str] = ()
    ) -> dict[str, Any]:
        answer, request = self._folder / "answer.json", self._folder / "request.json"
        answer.unlink(missing_ok=True)
        known = {"limits": limits, "fitted": [*fitted], "answer": str(answer)}
        request.write_text(json.dumps(known), "utf-8")
        # A cache of its own: the project's has its last failures.
        cache = ("-o", f"cache_dir={self._folder}")
        ours = ("-p", _PLUGIN, f"--attnmem-init={request}", *cache)
        command = [sys.executable, "-m", "pytest", *ours, *words, *self._arguments]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=False
        )
        if not answer.exists() or done.returncode not in _COMPLETED:
            told = " ".join((done.stderr or done.stdout).split())
            # What pytest refuses is at the beginning, what a program raised at the end.
            told = told[:300] if done.returncode == _USAGE_ERROR else told[-200:]
            raise AttnMemError(f"pytest ended early: {told}")
        found: dict[str, Any] = json.loads(answer.read_text("utf-8"))
        return found


def suggest(suite: Suite, most: int) -> list[Promise]:
    """Returns a promise for each of the functions with the largest tests, the largest first."""
    functions: dict[str, list[Record]] = defaultdict(list)
    for row in suite.measure():
        functions[row.where].append(row)
    largest = [max(rows, key=_peak) for rows in functions.values()]
    largest = sorted(largest, key=_peak, reverse=True)[:most]
    if not largest:
        return []
    recorded = suite.record([row.where for row in largest], [row.nodeid for row in largest])
    left, found = {}, {}
    for row in largest:
        tests = {one.nodeid for one in functions[row.where]}
        own = {key: entry for key, entry in recorded.entries.items() if key.test in tests}
        marked = can_be_marked(suite.rootdir, row.where)
        candidates = _candidates(row, own, recorded.forms.get(row.nodeid))
        left[row.where] = [one for one in candidates if marked or not one.limit]
        why = recorded.reasons.get(row.nodeid) or "no run repeats another"
        found[row.where] = Promise(row.where, row.nodeid, _peak(row), why=why)
    open_ = {where for where, candidates in left.items() if candidates}
    while open_:
        tried = {where: left[where].pop(0) for where in found if where in open_}
        entries = {k: e for one in tried.values() if not one.limit for k, e in one.entries.items()}
        rows = suite.prove({where: one.limit for where, one in tried.items()}, entries)
        for where, one in tried.items():
            found[where] = judged(one, rows.get(where, []))
            if found[where].kind or not left[where]:
                open_.remove(where)
    return [*found.values()]


def judged(promise: Promise, rows: Sequence[Record]) -> Promise:
    """Returns the promise, or why it is none: a test breaks it, or one more tensor does not."""
    own = next((row for row in rows if row.nodeid == promise.test), None)
    if own is None:
        return replace(promise, kind="", why="the test did not run again")
    broken = next((row for row in rows if not _keeps(row, promise)), None)
    if broken is not None:
        why = broken.reason or f"{broken.baseline_state or 'it is not measured'} in another run"
        return replace(promise, kind="", why=excerpt(why, 100))
    over = _over(promise, own)
    if over <= 0:
        return replace(promise, kind="", why="a copy of its largest tensor would not exceed it")
    return replace(promise, over=over)


def _keeps(row: Record, promise: Promise) -> bool:
    if promise.limit:
        return row.outcome is Outcome.WITHIN
    return row.baseline_state == State.SAME.value


def _over(promise: Promise, row: Record) -> int:
    """Returns by how much the test would exceed its promise with one more of its largest tensor.

    0 if it would not. A contract has no limit in bytes: there it is the tensor, if a copy of it at
    each size breaks the contract.
    """
    peak = _peak(row) + promise.largest
    if row.limit_bytes is not None:
        return peak - row.limit_bytes
    if is_contract(promise.limit):
        return promise.largest if _breaks(promise, row) else 0
    [(key, entry)] = [one for one in promise.entries.items() if one[0].test == row.nodeid]
    regressed = compare(peak, entry, tolerance_of(key.environment)) is State.REGRESSED
    return peak - entry.nbytes if regressed else 0


def _breaks(promise: Promise, row: Record) -> bool:
    """Returns True if the contract is broken at the sizes that ran, with a copy at each of them.

    The copy is of the first of the formula's terms, whose tensors are the largest.
    """
    formula, contract = split(promise.limit)
    copy = Polynomial(dict(expand(formula).ordered()[:1]))
    for growth in row.growth:
        sizes = {symbol: tuple(values) for symbol, values in growth["sizes"].items()}
        peaks: dict[tuple[int, ...], int] = {}
        counted: dict[tuple[int, ...], int] = {}
        for at, peak, over in zip(
            product(*sizes.values()), growth["peaks"], growth["over"], strict=True
        ):
            values = {**row.shape, **dict(zip(sizes, at, strict=True))}
            peaks[at], counted[at] = peak + int(copy.value(values)), peak - over
        if Growth(sizes, peaks, "peak", counted).judge(contract).answer is Answer.BROKEN:
            return True
    return False


def _candidates(row: Record, entries: Mapping[Key, Entry], form: str | None) -> Iterator[Promise]:
    """Yields promises of a function, the strongest first; none without an entry of its test.

    Without sizes to vary, ``form`` is None, and the formula is that of the tensors at the peak.
    """
    entry = next((e for k, e in entries.items() if (k.test, k.region) == (row.nodeid, "")), None)
    known = kinds(entry.held, row.shape) if entry else None
    if entry is None or known is None:
        return
    largest = max(kind.nbytes for kind in known.counts)
    promise = Promise(row.where, row.nodeid, _peak(row), largest=largest, entries=entries)
    if formula := form or entry.formula:
        if itemsize := row.shape.get("itemsize"):
            elements = expand(formula).scaled(Fraction(1, itemsize))
            limit = str(elements * Polynomial.atom("itemsize"))
            yield replace(promise, kind="formula", limit=limit)
        yield replace(promise, kind="formula", limit=formula)
    elif (total := _total(known)) and total.atoms:
        if form is not None:
            yield replace(promise, kind="contract", limit=_contract(total))
        elif total.value(row.shape) == entry.nbytes:
            yield replace(promise, kind="formula", limit=str(total))
    yield replace(promise, kind="baseline")


def _total(known: Known) -> Polynomial | None:
    """Returns the bytes of the tensors at the peak; None if a shape cannot be read."""
    total = Polynomial({})
    for kind, count in known.counts.items():
        dims = [dim for dim in known.dims.get(kind.form, "").split(", ") if dim]
        try:
            elements = expand("*".join(f"({dim})" for dim in dims) or "1")
        except FormulaError:
            return None
        total = total + elements.scaled(Fraction(count * kind.nbytes, prod(kind.shape)))
    return total


def _contract(total: Polynomial) -> str:
    """Returns the terms of the highest order, and the order of the others."""

    def order(monomial: Monomial) -> int:
        return sum(power for _, power in monomial)

    highest = max(map(order, total.terms))
    leading = Polynomial({m: value for m, value in total.terms.items() if order(m) == highest})
    rest = [m for m in total.terms if order(m) < highest] or [ONE]
    return f"{leading} + O({Polynomial(dict.fromkeys(rest, Fraction(1)))})"


def _bodies(answer: Mapping[str, Any]) -> Iterator[Record]:
    rows = map(from_dict, answer["rows"])
    return (row for row in rows if not row.region and row.metric == "peak")


def _peak(row: Record) -> int:
    return row.peak_bytes or 0
