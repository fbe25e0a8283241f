"""Makes docs/evidence/real-gpus.md of published numbers and of what their re-run found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from tables import ROOT, Pair, Source, Table, results, sources

PAGE = ROOT / "docs" / "evidence" / "real-gpus.md"
KINDS = {
    "A": "every fact is stated: the program, the GPU, the version of PyTorch",
    "B": "the version of the re-run or the device's profile was chosen, before comparing",
    "C": "the GPU is not stated, and was guessed before comparing",
    "D": "a version or a detail of the program was chosen after comparing, so it proves less",
}
#: Numbers that stand for many: a length, and a digest.
LISTS = ("actions", "blocks", "segments")
HEAD = """\
# Numbers of real GPUs

These are other people's measurements: numbers of GPU memory that others published, in
repositories and issues, and what the [null device](../how-to/without-a-gpu.md) says of the same
work. Nobody measured them for this project, and no program of it has run on a GPU here.

Each source is a file, `tests/published/sources/NAME.toml`: the repository, the path and the commit,
the GPU and the version of PyTorch, the numbers as they were published. A program of this
project does the same work with the same shapes (`tests/published/programs`), and takes kernels of
others from the package index, and a training loop of others from a checkout; where a log has the
whole program that ran, that program runs. `make published` runs all of them on null and writes this
page; `tests/data/published` has what they read.

A number is *equal* if the bytes that null counts would be published as the same digits: a number
in bytes to the byte, a number of two decimals to two decimals. There is no tolerance, but the first
table says how many are within a hundredth. A snapshot of the allocator also has lists: its events,
action and size one by one, and its segments with their blocks. A list is equal if all of it is.

"""
ADD = """\
## Adding a number

A source is one file: copy one of the same kind, and write the numbers as they stand there.
`python tests/published/run.py NAME` runs it; `python tests/published/page.py` writes this page. A
number that differs needs a `reason`, a test says; one that cannot be run, `not_comparable`.
A run of [`attnmem verify`](../reference/commands.md#attnmem-verify) on a GPU joins the
same tables: the rows of a source of class A whose program is `verified:workload` are
`[name, requested, allocated, reserved]`, as its `--json` file has them.
"""


class Shown(NamedTuple):
    """A table beside what was found."""

    source: Source
    table: Table
    pairs: list[Pair]

    @property
    def numbers(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.name not in LISTS]

    @property
    def lists(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.name in LISTS]


def shown() -> Iterator[Shown]:
    """Yields the tables that were run."""
    for name, source in sources().items():
        found = results(name)
        for table in source.tables:
            if table.key() in found:
                yield Shown(source, table, table.compared(found[table.key()]["rows"]))


def count(pairs: list[Pair]) -> str:
    """Returns how many are equal."""
    return f"{sum(pair.equal for pair in pairs):,} of {len(pairs):,}"


def items(pairs: list[Pair], name: str) -> str:
    """Returns how many items of lists of a name are in equal ones."""
    lengths = [
        (int(str(pair.published).split()[0]), pair.equal) for pair in pairs if pair.name == name
    ]
    equal = sum(length for length, same in lengths if same)
    return f"{equal:,} of {sum(length for length, _ in lengths):,}"


def link(source: Source) -> str:
    repository, _, thread = source.source.partition("#")
    url = f"https://github.com/{repository}"
    if thread:
        return f"[{source.source}]({url}/issues/{thread})"
    return f"[{source.source}]({url}/blob/{source.commit}/{source.path})"


def totals(all_shown: list[Shown]) -> str:
    """Returns the table of classes."""
    text = (
        "| class | what it means | sources | numbers equal | within 1 % |\n|---|---|---|---|---|\n"
    )
    for kind, meaning in [*KINDS.items(), ("all", "")]:
        of_kind = [one for one in all_shown if kind in (one.table.kind, "all")]
        names = {one.source.source for one in of_kind}
        pairs = [pair for one in of_kind for pair in one.numbers]
        near = sum(pair.near for pair in pairs)
        text += f"| {kind} | {meaning} | {len(names)} | {count(pairs)} | {near:,} |\n"
    lists = [pair for one in all_shown for pair in one.lists]
    traces = Counter(pair.name for pair in lists)["actions"]
    return text + (
        f"\nOf {traces} snapshots, {items(lists, 'actions')} events have the same action and size"
        f" and {items(lists, 'segments')} segments the same blocks, counting only whole lists;"
        f" {items(lists, 'blocks')} events also take the same block.\n\n"
    )


def of_kind(kind: str, all_shown: list[Shown]) -> str:
    """Returns the section of a class."""
    text = f"## {kind}: {KINDS[kind]}\n\n"
    text += "| source | work | GPU, torch | null, torch | equal |\n|---|---|---|---|---|\n"
    for one in all_shown:
        table = one.table
        if table.kind == kind:
            equal = count(one.numbers) + (f"; lists {count(one.lists)}" if one.lists else "")
            theirs, ours = f"{table.gpu}, {table.torch}", f"{table.device}, {table.rerun}"
            text += f"| {link(one.source)} | {table.what} | {theirs} | {ours} | {equal} |\n"
    return text + "\n"


def differences(all_shown: list[Shown]) -> str:
    """Returns the section of numbers that differ."""
    text = "## What differs, and why\n\n"
    for source, table, pairs in all_shown:
        different = [pair for pair in pairs if not pair.equal]
        if different:
            text += f"**{link(source)}, {table.what}** ({len(different)} of {len(pairs)}): "
            text += f"{table.reason}\n\n| | published | null |\n|---|---|---|\n"
            for pair in different[:6]:
                place = ", ".join(f"{n} {v}" for n, v in zip(table.sizes, pair.sizes, strict=False))
                unit = "" if pair.name in LISTS else f" {table.unit}"
                numbers = f"{pair.published}{unit} | {bytes_of(pair, table)}"
                name = ": ".join(filter(None, [place, pair.name]))
                text += f"| {name} | {numbers} |\n"
            if len(different) > 6:
                text += f"| … {len(different) - 6} more | | |\n"
            text += "\n"
    return text


def bytes_of(pair: Pair, table: Table) -> str:
    """Returns what null says, in the unit of the published number."""
    if not isinstance(pair.found, int):
        return str(pair.found or "out of memory")
    return f"{table.in_unit(pair.found):f} {table.unit}"


def not_comparable() -> str:
    """Returns the section of what was not run."""
    text = "## What cannot be compared\n\n| source | work | numbers | why |\n|---|---|---|---|\n"
    for source in sources().values():
        for table in source.tables:
            if table.not_comparable:
                numbers = len(table.rows) * len(table.numbers)
                why = table.not_comparable
                text += f"| {link(source)} | {table.what} | {numbers or ''} | {why} |\n"
    return text + "\n"


def notes() -> str:
    text = "## What was assumed\n\n"
    return text + "".join(f"- {link(one)}: {one.note}\n" for one in sources().values()) + "\n"


def page() -> str:
    found: list[Any] = [*shown()]
    parts = [HEAD, totals(found), *(of_kind(kind, found) for kind in KINDS)]
    return "".join([*parts, differences(found), not_comparable(), notes(), ADD])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
