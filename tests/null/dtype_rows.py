"""The refusals that the outcomes of an operator's calls show, and their rows in the package."""

import json
from collections import defaultdict

import recordings

from pytest_attnmem.backends.simulated.dtypes.names import LETTERS, NAMES
from pytest_attnmem.backends.simulated.dtypes.operands import DECIDERS
from pytest_attnmem.backends.simulated.dtypes.refusals import FILE

#: What becomes of a call, if no kernel refuses it: it fails in a library, or otherwise.
RAN, LIBRARY, FAILED = "ran", "library", "failed"
#: The kernels of several libraries, of which the sizes of a batch choose one.
BY_SIZE = frozenset({"lu_factor_cublas", "lu_factor_cusolver"})


def refused(outcomes):
    """Returns, by decider, the kernels by the dtypes that they refuse; "" for several kernels."""
    left = {
        given
        for given, seen in outcomes.items()
        if not seen & {RAN, LIBRARY} and any(type(one) is tuple for one in seen)
    }
    offers = {
        name: offer(decide, outcomes, (lambda given: True) if name.endswith("*") else is_single)
        for name, decide in DECIDERS.items()
    }
    covered = {
        name: set().union(*(calls for _, calls in kernels.values()))
        for name, kernels in offers.items()
    }
    chosen = {}
    while left:
        best = max(covered, key=lambda name: len(left & covered[name]))  # the simplest of equals
        if not left & covered[best]:
            break
        chosen[best] = {dtype: kernel for dtype, (kernel, _) in offers[best].items()}
        left -= covered[best]
    return chosen


def offer(decide, outcomes, shown):
    """Returns the kernel and the calls by the dtypes for which every call fails.

    ``shown`` must be true of one call: many kernels are not launched for a single element.
    """
    by_dtype = defaultdict(dict)
    for given, seen in outcomes.items():
        by_dtype[decide(given)][given] = seen
    offers = {}
    for dtype, calls in by_dtype.items():
        all_seen = set().union(*calls.values())
        kernels = {one for one in all_seen if type(one) is tuple}
        if dtype not in NAMES or not kernels or all_seen & {RAN, LIBRARY}:
            continue
        if {name for _, name in kernels} == {NAMES[dtype]}:
            names = {kernel for kernel, _ in kernels}
            calls = {given for given, seen in calls.items() if seen & kernels}
            if not any(map(shown, calls)):
                continue
            offers[dtype] = (names.pop() if len(names) == 1 and not names & BY_SIZE else "", calls)
    return offers


def is_single(given):
    return not given.tensors or given.tensors[0].single


def write(found, beginning="aten."):
    """Puts this version's refusals into the file, in rows shared by operators and versions.

    Rows of this version stay if they are of operators whose names begin otherwise.
    """
    letters = {dtype: letter for letter, (dtype, _) in LETTERS.items()}
    cells = defaultdict(lambda: defaultdict(str))  # (version, op) → (decider, kernel) → letters
    for versions, decider, kernel, refused_letters, ops in rows_before():
        for version in versions.split():
            for op in ops.split():
                if version != recordings.INSTALLED or not f"aten.{op}".startswith(beginning):
                    cells[version, op][decider, kernel] += refused_letters
    for op, deciders in found.items():
        for decider, kernels in deciders.items():
            for dtype in sorted(kernels, key=[*letters].index):
                cell = cells[recordings.INSTALLED, op.removeprefix("aten.")]
                cell[decider, kernels[dtype]] += letters[dtype]
    by_version = defaultdict(set)
    for (version, op), cell in cells.items():
        for (decider, kernel), refused_letters in cell.items():
            by_version[decider, kernel, refused_letters, op].add(version)
    rows = defaultdict(list)
    for (decider, kernel, refused_letters, op), versions in sorted(by_version.items()):
        rows[" ".join(sorted(versions)), decider, kernel, refused_letters].append(op)
    lines = [json.dumps([*row, " ".join(ops)]) for row, ops in sorted(rows.items())]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
    print(FILE, len(found), "operators", len(lines), "rows", FILE.stat().st_size, "bytes")


def rows_before():
    return json.loads(FILE.read_text("utf-8")) if FILE.exists() else []
