"""Numbers that others published of real GPUs: how their files are read, and what is equal.

``sources/NAME.toml`` has the facts of one source, and its ``tables``: a program of ours, the
columns of its sizes, and the columns of the numbers as they were published.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import tomllib

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
DATA = ROOT / "tests" / "data" / "published"
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "MB": 10**6, "GB": 10**9}


class Pair(NamedTuple):
    """A published number, and the bytes that were found."""

    sizes: list[Any]
    name: str
    published: Any
    found: int | str | None
    equal: bool
    #: True if they differ by at most a hundredth of what was published, or not at all.
    near: bool


@dataclass(frozen=True)
class Table:
    """Numbers of one program on one device."""

    what: str
    #: A: every fact is stated; B: the version or the device's profile was chosen before comparing;
    #: C: the GPU is not stated; D: a version or a detail was chosen after comparing.
    kind: str
    #: What they measured on, and the torch they had.
    gpu: str
    torch: str
    #: What stands for it: a device of null, and the torch of the re-run.
    device: str
    rerun: str
    program: str
    unit: str
    #: Names of the leading columns, and of the others.
    sizes: list[str]
    numbers: list[str]
    rows: list[list[Any]]
    #: Decimals are as published; or so many significant digits, or all of a float32; by number.
    digits: int | str | list[int | str] = "as published"
    arguments: dict[str, Any] = field(default_factory=dict)
    requirements: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    #: ``owner/repository@commit``, whose code the program runs; ``:`` and paths follow for a part.
    checkout: str = ""
    #: The first rank runs of a world of so many, by ``--ranks``.
    ranks: int = 0
    #: Why some numbers differ; or why none of them can be compared.
    reason: str = ""
    not_comparable: str = ""
    #: Each row has a process of its own.
    alone: bool = False
    #: Tests run it on any torch, in seconds.
    fast: bool = False

    def tasks(self) -> list[dict[str, Any]]:
        """Returns what each process must know."""
        task = {
            "program": self.program,
            "arguments": self.arguments,
            "sizes": self.sizes,
            "numbers": self.numbers,
        }
        rows = [row[: len(self.sizes)] for row in self.rows]
        return [
            {**task, "rows": part} for part in ([[row] for row in rows] if self.alone else [rows])
        ]

    def where(self) -> list[Any]:
        """Returns what the process of a table has; one process runs the tables that share it."""
        other = [self.checkout, self.ranks] if self.checkout or self.ranks else []
        return [self.device, self.rerun, self.requirements, self.environment, *other]

    def key(self) -> str:
        """Returns a name of what is run, and where: results of another run have another key."""
        text = json.dumps([self.tasks(), self.where()], default=float, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def compared(self, rows: list[list[Any]]) -> list[Pair]:
        """Returns each number beside the one that was found."""
        count = len(self.sizes)
        digits = self.digits
        each = digits if isinstance(digits, list) else [digits] * len(self.numbers)
        return [
            Pair(
                *(row[:count], name, theirs, ours),
                equal=(equal := self.is_equal(theirs, ours, digits)),
                near=equal or self.is_near(theirs, ours),
            )
            for row, found in zip(self.rows, rows, strict=True)
            for name, theirs, ours, digits in zip(
                self.numbers, row[count:], found, each, strict=True
            )
        ]

    def in_unit(self, nbytes: int) -> Decimal:
        """Returns bytes in the unit of the published numbers."""
        return (Decimal(nbytes) / UNITS[self.unit]).normalize()

    def is_equal(self, published: Any, found: int | str | None, digits: int | str) -> bool:
        """Returns True if the bytes that were found would be published as this number."""
        if not isinstance(found, int) or isinstance(published, str):
            return bool(published == found)
        exact = Decimal(found) / UNITS[self.unit]
        number = Decimal(published)
        if digits == "float32":
            return _float32(exact) == _float32(number)
        if isinstance(digits, int):
            return f"{float(exact):.{digits}g}" == f"{float(number):.{digits}g}"
        return exact.quantize(number) == number

    def is_near(self, published: Any, found: int | str | None) -> bool:
        """Returns True for a number that differs by at most a hundredth."""
        if not isinstance(found, int) or isinstance(published, str):
            return False
        number = Decimal(published)
        return abs(Decimal(found) / UNITS[self.unit] - number) * 100 <= number


@dataclass(frozen=True)
class Source:
    """Where numbers were published."""

    name: str
    #: Such as ``owner/repository``, or ``owner/repository#1`` of a thread.
    source: str
    path: str
    commit: str
    #: What was assumed, and how the numbers were read.
    note: str
    tables: list[Table]


def _float32(number: Decimal) -> float:
    """Returns a number as a float32 holds it."""
    found: float = struct.unpack("f", struct.pack("f", float(number)))[0]
    return found


def sources() -> dict[str, Source]:
    """Returns all sources by name."""
    found = {}
    for path in sorted((HERE / "sources").glob("*.toml")):
        facts = tomllib.loads(path.read_text("utf-8"), parse_float=Decimal)
        shared = facts.pop("shared", {})
        tables = [Table(**{**shared, **table}) for table in facts.pop("tables")]
        found[path.stem] = Source(path.stem, **facts, tables=tables)
    return found


def results(name: str) -> dict[str, dict[str, Any]]:
    """Returns what the programs of a source read, by the key of a table."""
    path = DATA / f"{name}.json"
    found: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found
