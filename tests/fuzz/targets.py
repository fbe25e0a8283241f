"""What reads text or files of users, for ``test_fuzz.py`` and ``run.py``.

A target takes a text, or the path of a file. It returns, or raises an error of one line.
"""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from pytest_attnmem.allocator import settings_from
from pytest_attnmem.backends.registry import check_name
from pytest_attnmem.baselines import file as baseline
from pytest_attnmem.budgets.growth_contract import parse_contract
from pytest_attnmem.budgets.parsing import parse
from pytest_attnmem.budgets.tolerance import parse_tolerance
from pytest_attnmem.cli import main
from pytest_attnmem.cli.run_ranks import rank_list
from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.formulas.polynomial import expand
from pytest_attnmem.measurement.values_limit import parse_values_limit
from pytest_attnmem.models.inputs import parse_inputs
from pytest_attnmem.models.sources import source_of
from pytest_attnmem.nulldevice.launch import devices
from pytest_attnmem.report import json as report_json
from pytest_attnmem.sweep import results
from pytest_attnmem.symbols.argument_shapes import parse_shapes
from pytest_attnmem.units import parse_size
from pytest_attnmem.verification import document


class Target(NamedTuple):
    name: str
    read: Callable[[Any], object]
    valid: Any = None
    """The data of a valid file; None if it reads text."""


def _evaluated(text: str) -> None:
    formula = parse_formula(text)
    formula.evaluate(**dict.fromkeys(formula.symbols, 2**20))
    str(expand(formula))


TEXTS = (
    Target("formula", _evaluated),
    Target("size", parse_size),
    Target("tolerance", parse_tolerance),
    Target("growth contract", parse_contract),
    Target("limit of a marker", lambda text: parse((text,), {})),
    Target("shapes of derive", lambda text: parse_shapes([text])),
    Target("inputs of a model", lambda text: parse_inputs([text])),
    Target("ranks", lambda text: rank_list(text, 8)),
    Target("limit of values", parse_values_limit),
    Target("allocator", lambda text: settings_from({"PYTORCH_CUDA_ALLOC_CONF": text})),
    Target("devices", devices),
    Target("backend", check_name),
)

#: Words of the grammars, joined at random.
WORDS = (
    *("B", "N", "d", "Hkv", "itemsize", "O(", "1", "0", "2", "9" * 30, "1e9", "0.5", "1_0", "٣"),
    *("+", "-", "*", "/", "//", "**", "^", "(", ")", ",", "min(", "max(", "log2(", "ceil("),
    *(" ", "%", "MiB", "GB", "KiB", ":", "=", "-", "x", "all", "last", "H100", "null", "int64"),
    *("True", "\n", "\0", "\ud800", "'", '"', "<", "&", "é", "max_split_size_mb", "garbage"),
)
TEXT = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=12).map("".join),
    st.lists(st.sampled_from(WORDS), max_size=200).map("".join),
    st.text(max_size=40),
)

#: Texts of 10 KB, and numbers beyond any device.
NASTY = (
    *("(" * 5_000 + "N" + ")" * 5_000, "-" * 10_000 + "N", "N+" * 5_000 + "N"),
    *("N**" * 3_000 + "N", "9" * 10_000, "2**2**2**2**2**2", "10**400", "1" + "0" * 400 + " TiB"),
    *("O(" + "N*" * 4_999 + "N)", "max(" * 2_500 + "1" + ")" * 2_500, "N" * 10_000, "1," * 5_000),
    *("0-99999999999", "\0" * 100, "log2(2**100000)", "N^-1000", "(B+N+d)**60", "1/0", "0**-1"),
    *("ceil(N/3)**9", "." * 10_000, "0," * 5_000, "a" * 5_000 + ":" + "1" * 5_000),
)

ROW = {
    "nodeid": "test_a.py::test_b",
    "region": "",
    "outcome": "over",
    "metric": "peak",
    "backend": "cpu",
    "device": "cpu",
    "shape": {"N": 4},
    "budget": "2*N",
    "limit_bytes": 8,
    "peak_bytes": 16,
    "duration_s": 0.5,
    "held": [{"bytes": 16, "shape": [4], "dtype": "uint8", "op": "empty", "where": "a.py:1"}],
}
RESULTS = {
    "schema": 1,
    "environment": {"python": "3.11", "torch": "2.13.0", "allocator": None},
    "results": [ROW, {**ROW, "nodeid": "test_a.py::test_c", "outcome": "within"}],
    "growth": [{**{name: ROW[name] for name in ("nodeid", "region", "metric", "backend", "device")},
                "sizes": {"N": [1, 2]}, "peaks": [1, 2], "formula": "N"}],
    "summary": {"budgets": 2},
}  # fmt: skip
BASELINE = {
    "schema": 1,
    "entries": [{"test": "t.py::a", "metric": "peak", "on": "cpu", "bytes": 3, "formula": "N"}],
}
VERIFICATION = {
    "schema": 1,
    "reference": "cuda",
    "profile": "H100",
    "versions": {"torch": "2.13.0"},
    "device": {"name": "NVIDIA H100", "memory_bytes": 8},
    "expected": {"name": "H100", "memory_bytes": 9},
    "complete": True,
    "workloads": [{"name": "a", "cuda": {"requested": 1, "allocated": 2, "reserved": 3}}],
}
SWEEP = json.loads(
    results.render(
        results.Sweep(
            {"batch": 1, "heads": 1, "dtype": "float32", "device": "H100", "memory_bytes": 8},
            {"torch": "2.13.0"},
            (results.Row("standard", 1, 1, 64, 64, "float32", False, True, "ok", "measured"),),
        )
    )
)
HISTORY = {
    "schema": 1,
    "kind": "history",
    "name": "net",
    "facts": {"backend": "cpu", "torch": "2.13.0", "tests": "t.py"},
    "points": [
        {"sha": "a", "parents": [], "author": "Ada", "date": "2026-01-01", "subject": "x",
         "measured": {"values": {"t.py::a": 1}, "gaps": {}, "used": {}}, "tree": "1"},
        {"sha": "b", "parents": ["a"], "author": "Ada", "date": "2026-01-02", "subject": "y",
         "measured": {"values": {"t.py::a": 3}, "gaps": {}, "used": {}}, "tree": "2"},
    ],
    "steps": [
        {"row": "t.py::a", "parent": "a", "sha": "b", "before": 1, "after": 3, "gaps": [],
         "cause": {"before": 1, "after": 3, "change": "", "tensors": [
             {"text": "+2 B mm", "kind": "mm", "delta_bytes": 2, "term": "", "holder": ""}]},
         "ended_by": ""},
    ],
}  # fmt: skip


def _verified(path: Path) -> None:
    from pytest_attnmem.verification import table

    table.render(document.read(path))


def _told(path: Path) -> None:
    """Runs the command that reads histories; it does not raise."""
    page, table = str(path.with_name("page.html")), str(path.with_name("page.md"))
    code = main(["history", "--from", str(path), "--html", page, "--markdown", table])
    if code not in (0, 1, 2):
        raise AssertionError(f"exit code {code}")


def _reported(path: Path) -> None:
    """Runs the commands that read results; none raises."""
    other = path.with_name("other.json")
    other.write_text(json.dumps(RESULTS))
    page = str(path.with_name("page.html"))
    commands = (
        ["report", str(path), "--html", page, "--markdown", page + ".md", "--csv", page + ".csv"],
        ["compare", str(other), str(path)],
        ["merge", str(path), str(other), "-o", page + ".json"],
    )
    codes = [main(command) for command in commands]
    if not {*codes} <= {0, 1, 2}:
        raise AssertionError(f"exit codes {codes}")


FILES = (
    Target("results", report_json.load, RESULTS),
    Target("commands on results", _reported, RESULTS),
    Target("commands on histories", _told, HISTORY),
    Target("baseline", baseline.load, BASELINE),
    Target("verification", _verified, VERIFICATION),
    Target("sweep", results.load, SWEEP),
    Target("config of a model", lambda path: source_of("transformers:X", (), str(path)), {"n": 1}),
)

#: What may stand in the place of any value.
VALUES = st.one_of(
    st.sampled_from((None, True, -1, 0, 2**63, 10**400, -(10**400), 1e308, [], {})),
    st.sampled_from((float("nan"), float("inf"), "", "\ud800", "</script>", "a\nb\x1b[31m")),
    st.sampled_from(("x" * 10_000, "../../etc", [[[]]], [None])),
    st.integers(),
    st.text(max_size=8),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@st.composite
def changed(draw: Any, valid: Any) -> Any:
    """Returns a copy of the data with up to three values replaced, added or removed."""
    data = pickle.loads(pickle.dumps(valid))
    for _ in range(draw(st.integers(1, 3))):
        place = data
        while True:
            keys = [*place] if isinstance(place, dict) else [*range(len(place))]
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], (dict, list)) and place[key] and draw(st.integers(0, 3)):
                place = place[key]
                continue
            if draw(st.integers(0, 4)):
                place[key] = pickle.loads(pickle.dumps(draw(VALUES)))
            else:
                del place[key]
            break
    return data


def as_json(data: Any) -> bytes:
    """Returns the data as a file; a number may have any length."""
    return json.dumps(data).encode("utf-8")
