"""Finds the first bad commit: it measures commits and searches, also inside merges."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from ..baselines.entries import row_name
from ..budgets.tolerance import Tolerance
from ..commits.commit_files import CommitFiles
from ..commits.repository import Commit, Repository
from ..commits.terms import LISTING, PLAIN, entries, terms
from ..commits.warm_process import Row, Sample, WarmProcess
from ..errors import AttnMemError
from ..report.held_changes import HeldChange, held_changes
from ..report.record import Record
from ..units import format_count


class State(Enum):
    """The result of one commit."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"
    """It cannot be measured."""


@dataclass(slots=True)
class Found:
    """The end of a search, as numbers of commits."""

    good: int
    """The last commit that is known to be good before ``bad``."""
    bad: int
    """The first commit that is known to be bad."""
    states: dict[int, State] = field(default_factory=dict)
    """The commits that were measured."""

    @property
    def candidates(self) -> range:
        """Returns the commits of which one is the first bad one: one, unless some are skipped."""
        return range(self.good + 1, self.bad + 1)


def search(count: int, state_of: Callable[[int], State]) -> Found:
    """Returns the first bad of ``count`` commits, of which the first is good and the last bad.

    It halves the interval; a commit that is skipped is replaced by the nearest one that is not.
    """
    found = Found(0, count - 1, {0: State.GOOD, count - 1: State.BAD})
    while number := _middle(found):
        state = found.states[number] = state_of(number)
        if state is State.GOOD:
            found.good = number
        elif state is State.BAD:
            found.bad = number
    return found


def _middle(found: Found) -> int:
    """Returns the number of the commit to measure next; 0 if there is none."""
    inside = [n for n in range(found.good + 1, found.bad) if n not in found.states]
    return min(inside, key=lambda n: abs(2 * n - found.good - found.bad), default=0)


@dataclass(frozen=True, slots=True)
class Criterion:
    """A commit is bad if one of the rows is over its budget, or above its level."""

    levels: Mapping[Row, int | None]
    """The most bytes of a good commit; None: the row's own budget decides."""

    @property
    def by_budget(self) -> bool:
        """Returns True if budgets decide."""
        return None in self.levels.values()

    def bad_rows(self, sample: Sample) -> list[Row]:
        """Returns the rows that are bad in a sample, the largest growth first."""
        bad = [row for row, level in self.levels.items() if _is_bad(sample.rows.get(row), level)]
        return sorted(bad, key=lambda row: -(sample.rows[row].value or 0))

    def state(self, sample: Sample) -> State:
        """Returns the state of a commit; it is skipped if a row is missing and no other is bad."""
        if self.bad_rows(sample):
            return State.BAD
        return State.GOOD if self.levels.keys() <= sample.rows.keys() else State.SKIPPED

    def why_skipped(self, sample: Sample) -> str:
        """Returns the reason why a commit is skipped."""
        missing = next(row for row in self.levels if row not in sample.rows)
        return sample.problem or f"{row_name(missing)} was not measured"


def _is_bad(row: Record | None, level: int | None) -> bool:
    if row is None:
        return False
    if row.out_of_memory:
        return True
    return row.fails or row.is_expected_failure if level is None else (row.value or 0) > level


def criterion(good: Sample, bad: Sample, grew: bool, tolerance: Tolerance) -> Criterion:
    """Returns what tells the ends apart: a budget that only the bad end exceeds, else growth.

    Args:
        good: the rows of the good end.
        bad: the rows of the bad end.
        grew: True if growth decides even where a budget is exceeded.
        tolerance: the growth that does not count.

    Raises:
        AttnMemError: the ends have no row in common, or none is worse at the bad end.
    """
    shared = [row for row in bad.rows if row in good.rows]
    if not shared:
        raise AttnMemError(_nothing_shared(good, bad))
    over = {row for row in shared if _is_bad(bad.rows[row], None)}
    already = [row for row in shared if row in over and _is_bad(good.rows[row], None)]
    newly = [row for row in shared if row in over and row not in already]
    if newly and not grew:
        return Criterion(dict.fromkeys(newly))
    if already and not grew:
        before = good.rows[already[0]]
        raise AttnMemError(
            f"{row_name(already[0])} is over its budget at the good end already, on {before.place};"
            " name an earlier good commit or another --backend; --grew finds what grew since"
        )
    levels: dict[Row, int | None] = {}
    for row in shared:
        before = good.rows[row]
        if before.value is None or before.out_of_memory:
            continue
        level = before.value + tolerance.allowance(before.value)
        if _is_bad(bad.rows[row], level):
            levels[row] = level
    if levels:
        return Criterion(levels)
    if already:
        raise AttnMemError(
            f"{row_name(already[0])} is over its budget at the good end already, and did not grow;"
            " name an earlier good commit"
        )
    results = format_count(len(shared), "result")
    raise AttnMemError(
        f"the bad end is good: of {results} none is over its budget or grew since the good end"
    )


def _nothing_shared(good: Sample, bad: Sample) -> str:
    for end, sample in (("good", good), ("bad", bad)):
        if not sample.rows:
            why = sample.problem or "no test ran"
            hint = "; --tests-from bad runs the bad end's tests there" if end == "good" else ""
            return f"nothing was measured at the {end} end: {why}{hint}"
    because = f", where {good.problem}" if good.problem else ""
    return (
        f"{row_name(next(iter(bad.rows)))} is not measured at the good end{because};"
        " --tests-from bad runs the bad end's tests at every commit"
    )


@dataclass(frozen=True, slots=True)
class Culprit:
    """A row that got worse at the first bad commit."""

    row: Row
    before: Record
    after: Record
    change: str
    """The difference to the commit before, by terms and lines; empty if it is not proved."""
    tensors: tuple[HeldChange, ...] = ()
    """The tensors that are more or fewer at the peak."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a search."""

    criterion: Criterion
    commits: tuple[Commit, ...]
    """From the good end to the bad end; inside a merge, those of the merged branch."""
    found: Found
    samples: Mapping[str, Sample]
    """The samples by hash."""
    culprits: tuple[Culprit, ...]
    """The rows that the first bad commit made worse, if there is one such commit."""
    through: tuple[Commit, ...] = ()
    """The merges that brought the first bad commit, the latest first."""
    is_merge: bool = False
    """True if the first bad commit is a merge of commits that are all good."""

    @property
    def first_bad(self) -> Commit:
        """Returns the first commit that is known to be bad."""
        return self.commits[self.found.bad]

    @property
    def skipped(self) -> list[tuple[Commit, str]]:
        """Returns the commits that cannot be measured, and why."""
        return [
            (self.commits[number], self.criterion.why_skipped(self.samples[sha]))
            for number, state in sorted(self.found.states.items())
            if state is State.SKIPPED
            for sha in [self.commits[number].sha]
        ]


class Bisection:
    """A search over the commits of one repository."""

    def __init__(
        self,
        repository: Repository,
        files: CommitFiles,
        process: WarmProcess,
        tests: Sequence[str],
        show: Callable[[str], None],
    ) -> None:
        self._repository = repository
        self._files = files
        self._process = process
        self._tests = tests
        self._show = show
        self._samples: dict[str, Sample] = {}

    def between(self, good: str, bad: str, *, grew: bool, tolerance: Tolerance) -> Result:
        """Returns the first bad commit, and what it changed.

        Raises:
            AttnMemError: the ends cannot be told apart, or git or the process fails.
        """
        rule = criterion(self._sample(good), self._sample(bad), grew, tolerance)
        chain = self._repository.chain(good, bad)
        found = self._search(chain, rule)
        merges: list[str] = []
        while inside := self._inside(chain, found, rule):
            merges.append(chain[found.bad])
            chain = inside
            found = self._search(chain, rule)
        commits = self._repository.describe([*chain, *merges])
        first = chain[found.bad]
        single = len(found.candidates) == 1
        return Result(
            rule,
            tuple(commits[sha] for sha in chain),
            found,
            self._samples,
            self._culprits(chain[found.good], first, rule) if single else (),
            tuple(commits[sha] for sha in reversed(merges)),
            single and len(self._repository.parents(first)) > 1,
        )

    def _search(self, chain: Sequence[str], rule: Criterion) -> Found:
        return search(len(chain), lambda number: rule.state(self._sample(chain[number])))

    def _inside(self, chain: Sequence[str], found: Found, rule: Criterion) -> list[str]:
        """Returns the branch that the first bad commit merged, if the branch is bad itself."""
        if len(found.candidates) > 1:
            return []
        before, merge = chain[found.good], chain[found.bad]
        for parent in self._repository.parents(merge):
            base = self._repository.merge_base(before, parent)
            if parent == before or base in ("", parent):
                continue
            states = [rule.state(self._sample(commit)) for commit in (base, parent)]
            if states == [State.GOOD, State.BAD]:
                return self._repository.chain(base, parent)
        return []

    def _sample(self, commit: str) -> Sample:
        if commit not in self._samples:
            self._show(f"measured {format_count(len(self._samples), 'commit')}, now {commit[:10]}")
            self._samples[commit] = self._measure(commit, *PLAIN)
        return self._samples[commit]

    def _measure(self, commit: str, *options: str) -> Sample:
        try:
            self._files.check_out(commit)
        except AttnMemError as error:
            return Sample(problem=str(error))
        return self._process.sample(self._tests, *options)

    def _culprits(self, before: str, first: str, rule: Criterion) -> tuple[Culprit, ...]:
        """Returns the rows that are worse since a commit, those that tell it first."""
        good, bad = self._sample(before), self._sample(first)
        worse = [row for row in rule.bad_rows(bad) if row in good.rows]
        worse += [
            row
            for row, record in bad.rows.items()
            if row in good.rows
            and row not in worse
            and (record.value or 0) > (good.rows[row].value or 0)
        ]
        self._show(f"comparing {first[:10]} with {before[:10]}")
        with tempfile.TemporaryDirectory(prefix="attnmem-bisect-") as folder:
            found, samples = [], []
            for commit in (before, first):
                path = Path(folder).resolve() / f"{commit}.json"
                sample = self._measure(commit, f"--attnmem-baseline={path}", *LISTING)
                found.append(entries(path, sample))
                samples.append(sample)
        old, new = found
        return tuple(
            Culprit(
                row,
                good.rows[row],
                bad.rows[row],
                terms(row, old, new, samples[1]),
                tuple(held_changes(*(s.rows[row].held if row in s.rows else () for s in samples))),
            )
            for row in worse
        )
