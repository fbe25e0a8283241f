"""The comparison of measurements with the entries of a baseline."""

import json
from fractions import Fraction

import pytest

from pytest_attnmem.baselines.entries import (
    Baseline,
    Entry,
    Key,
    State,
    compare,
    part_changes,
    percentage,
    regression,
    side_by_side,
    tolerance_of,
)
from pytest_attnmem.baselines.file import load, render
from pytest_attnmem.budgets.tolerance import NONE, Tolerance, parse_tolerance
from pytest_attnmem.errors import AttnMemError

MIB = 1 << 20


def key(test: str = "test_a.py::test", on: str = "cpu", region: str = "") -> Key:
    return Key(test, region, "peak", on)


@pytest.mark.parametrize(
    ("nbytes", "before", "tolerance", "state"),
    [
        (10, None, "0", State.NEW),
        (10, 10, "0", State.SAME),
        (11, 10, "0", State.REGRESSED),
        (9, 10, "0", State.IMPROVED),
        (101, 100, "1%", State.SAME),
        (102, 100, "1%", State.REGRESSED),
        (99, 100, "1%", State.SAME),
        (98, 100, "1%", State.IMPROVED),
        (100 + 8, 100, "1%+8B", State.SAME),  # more than 1 %, and not more than 8 B
        (100 + 9, 100, "1%+8B", State.REGRESSED),
        (10_000 + 100, 10_000, "1%+8B", State.SAME),  # more than 8 B, and not more than 1 %
        (10_000 + 101, 10_000, "1%+8B", State.REGRESSED),
        (1, 0, "0", State.REGRESSED),
        (0, 0, "0", State.SAME),
        (-5, 3, "0", State.IMPROVED),  # retained bytes may be less than nothing
    ],
)
def test_a_measurement_is_the_same_within_the_tolerance(
    nbytes: int, before: int | None, tolerance: str, state: State
) -> None:
    entry = None if before is None else Entry(before)
    assert compare(nbytes, entry, parse_tolerance(tolerance)) is state


@pytest.mark.parametrize(
    ("environment", "tolerance"),
    [
        ("cpu", NONE),
        ("simulated:H100", NONE),
        ("null:H100 sm90 torch2.13", NONE),
        ("cuda NVIDIA H100 sm90 torch2.13", Tolerance(Fraction(1, 100), MIB)),
        ("accelerator xpu torch2.13", Tolerance(Fraction(1, 100), MIB)),
    ],
)
def test_only_real_devices_have_a_tolerance(environment: str, tolerance: Tolerance) -> None:
    assert tolerance_of(environment) == tolerance


@pytest.mark.parametrize(
    ("nbytes", "before", "tolerance", "text"),
    [
        (
            153 * MIB // 2,
            129 * MIB // 2,
            "0",
            "76.5 MiB is 12.0 MiB over its baseline 64.5 MiB (+18.6%)",
        ),
        (11, 10, "0", "11 B is 1 B over its baseline 10 B (+10.0%)"),
        (1, 0, "0", "1 B is 1 B over its baseline 0 B"),
        (64 * MIB + 1, 64 * MIB, "0", "67,108,865 B is 1 B over its baseline 67,108,864 B"),
        (
            *(110 * MIB, 100 * MIB, "2%+1MiB"),
            "110.0 MiB is 10.0 MiB over its baseline 100.0 MiB (+10.0%) with tolerance 2%+1MiB",
        ),
    ],
)
def test_a_regression_is_one_line(nbytes: int, before: int, tolerance: str, text: str) -> None:
    told = regression("peak", nbytes, Entry(before), "cpu", parse_tolerance(tolerance))
    assert told == f"peak {text} on cpu"


@pytest.mark.parametrize(
    ("nbytes", "before", "text"),
    [
        (10, 10, ""),
        (15, 10, " (+50.0%)"),
        (5, 10, " (-50.0%)"),
        (1001, 10, " (+9,910.0%)"),
        (100_001, 100_000, ""),  # nobody reads +0.0%
        (2, 1, " (+100.0%)"),
        (5, 0, ""),
        (5, -5, ""),
    ],
)
def test_a_change_is_a_share_of_the_earlier_bytes(nbytes: int, before: int, text: str) -> None:
    assert percentage(nbytes, before) == text


def test_a_baseline_knows_where_else_there_is_an_entry() -> None:
    others = [key(on=on) for on in ("cuda X", "simulated:H100", "cpu")]
    others += [key("b", "tpu"), key(on="mps", region="f")]
    baseline = Baseline("b.json", dict.fromkeys(others, Entry(1)))
    assert baseline.elsewhere(key(on="cuda Y")) == ("cpu", "cuda X", "simulated:H100")
    assert baseline.elsewhere(key()) == ("cuda X", "simulated:H100")
    assert baseline.elsewhere(key("b", "tpu")) == ()
    assert baseline.elsewhere(key(region="forward")) == ()
    assert baseline.elsewhere(key("c")) == ()
    assert baseline.has("b")
    assert not baseline.has("c")


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (Key("t", "", "peak", "cpu"), "t"),
        (Key("t", "forward", "peak", "cpu"), "t [forward]"),
        (Key("t", "", "reserved", "cpu"), "t (reserved)"),
        (Key("t", "forward", "retained", "cpu"), "t [forward] (retained)"),
    ],
)
def test_a_key_is_called_after_its_test(made: Key, name: str) -> None:
    assert made.name == name


def test_the_entry_of_another_torch_or_number_of_threads_is_known() -> None:
    old, older, four = (
        key(on=f"cpu threads{on}") for on in ("2 torch2.14", "2 torch2.13", "4 torch2.13")
    )
    there, plain = key("b", "cpu threads4"), key(on="cpu torch2.13")
    baseline = Baseline("b.json", dict.fromkeys((old, older, four, there, plain), Entry(1)))
    assert baseline.of_other_torch(key(on="cpu threads2 torch2.15")) == old
    assert baseline.of_other_torch(older) is None  # it has its own
    assert baseline.of_other_torch(key(on="null:H100 torch2.15")) is None
    assert baseline.keeps_versions("cpu threads2 torch2.15")
    assert not baseline.keeps_versions("cpu threads4 torch2.15")
    assert baseline.of_other_threads(key(on="cpu threads1 torch2.13")) == older
    assert baseline.of_other_threads(key(on="cpu threads1 torch2.15")) is None
    assert baseline.of_other_threads(older) is None  # it has its own
    assert baseline.of_other_threads(key(on="null:H100 torch2.13")) is None


def test_a_place_with_two_versions_of_one_test_keeps_them() -> None:
    keys = [
        key("a", "cpu torch2.13"),
        key("a", "cpu torch2.15"),
        key("a", "null:H100 sm90 torch2.13"),
        key("b", "null:H100 sm90 torch2.15"),  # another test
        key("a", "simulated:H100"),  # a version that is unknown is none to keep
        key("a", "simulated:H100 torch2.15"),
        key("a", "simulated:A100 torch2.13"),
        key("a", "simulated:A100 torch2.15")._replace(metric="retained"),
    ]
    assert side_by_side(keys) == {"cpu"}


KIB = 1024


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({}, {"a": 1}, ""),
        ({"a": 1}, {}, ""),
        ({"a": 1}, {"a": 1}, ""),
        ({"a": KIB}, {"a": 3 * KIB}, "+2.0 KiB a"),
        (
            {"gone": 8 * KIB, "same": 5, "grown": KIB, "ended": 8},
            {"same": 5, "grown": 2 * KIB, "new": 4 * KIB, "begun": 4},
            "+4.0 KiB new; +1.0 KiB grown; +4 B begun; -8.0 KiB gone; and -8 B in 1 other part",
        ),
        (
            dict.fromkeys("abcdef", KIB),
            dict(zip("abcdef", (9 * KIB, 8 * KIB, 7 * KIB, 6 * KIB, 5 * KIB, 0), strict=True)),
            "+8.0 KiB a; +7.0 KiB b; +6.0 KiB c; +5.0 KiB d; and +3.0 KiB in 2 other parts",
        ),
    ],
)
def test_the_parts_that_grew_come_first_and_the_rest_is_added_up(before, now, text):
    assert part_changes(before, now) == text


KEY = Key("test_a.py::test_it", "step", "peak", "cpu torch2.13")


def test_the_parts_of_an_entry_are_written_and_read(tmp_path):
    entries = {KEY: Entry(12, parts={"weights of head": 4, "temporary of blocks.*": 8})}
    path = tmp_path / "baseline.json"
    path.write_text(render(entries))
    assert load(path) == entries


@pytest.mark.parametrize("parts", [[], {"a": "1"}, {"a": True}, {"a": 1 << 5000}, 3])
def test_parts_that_are_not_bytes_are_refused(tmp_path, parts):
    path = tmp_path / "baseline.json"
    entry = {"test": "a", "metric": "peak", "on": "cpu", "bytes": 1, "parts": parts}
    path.write_text(json.dumps({"schema": 1, "entries": [entry]}))
    with pytest.raises(AttnMemError, match="entry 1 is not valid: "):
        load(path)
