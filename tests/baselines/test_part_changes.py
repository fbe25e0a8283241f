"""The parts of a model that changed since its baseline, in one line."""

import json

import pytest

from pytest_attnmem.baselines.entries import Entry, Key, part_changes
from pytest_attnmem.baselines.file import load, render
from pytest_attnmem.errors import AttnMemError

KIB = 1024


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({}, {"a": 1}, ""),
        ({"a": 1}, {}, ""),
        ({"a": 1}, {"a": 1}, ""),
        ({"a": KIB}, {"a": 3 * KIB}, "+2.0 KiB a"),
        (
            {"gone": 8 * KIB, "same": 5, "grown": KIB},
            {"same": 5, "grown": 2 * KIB, "new": 4 * KIB},
            "+4.0 KiB new; +1.0 KiB grown; -8.0 KiB gone",
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
