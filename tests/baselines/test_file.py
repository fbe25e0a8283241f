"""The contents of a baseline's file, and the files that are refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.baselines.entries import Entries, Entry, Key, with_all
from pytest_attnmem.baselines.file import load, render, update
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.measurement.measurement import METRICS

A = Key("test_a.py::test[1]", "", "peak", "cpu")
B = Key("test_a.py::test[1]", "forward", "peak", "simulated:H100")
ENTRIES = {
    B: Entry(12, "12*B*H*N^2", ("softmax float32 B·H·N·N",)),
    A: Entry(7),
}
TEXT = """\
{"schema": 1.1, "entries": [
{"test": "test_a.py::test[1]", "metric": "peak", "on": "cpu", "bytes": 7},
{"test": "test_a.py::test[1]", "region": "forward", "metric": "peak", "on": "simulated:H100",\
 "bytes": 12, "formula": "12*B*H*N^2", "held": ["softmax float32 B·H·N·N"]}
]}
"""

words = st.text(min_size=1)
entries = st.dictionaries(
    st.builds(Key, words, st.text(), st.sampled_from(METRICS), words),
    st.builds(Entry, st.integers(-(2**80), 2**80), st.text(), st.lists(st.text()).map(tuple)),
)


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def put(path: Path, measured: Entries) -> None:
    update(path, lambda before: with_all(before, measured))


def test_an_entry_is_a_line_and_lines_are_sorted(tmp_path: Path) -> None:
    assert render(ENTRIES) == TEXT
    assert load(write(tmp_path / "b.json", TEXT)) == ENTRIES
    assert load(write(tmp_path / "b.json", render({}))) == {}


@given(made=entries)
def test_every_entry_comes_back(tmp_path_factory: pytest.TempPathFactory, made: Entries) -> None:
    path = tmp_path_factory.mktemp("b") / "b.json"
    put(path, made)
    assert (load(path) if made else {}) == made
    data = path.read_bytes() if made else render(made).encode()
    assert json.loads(data)["schema"] == 1.1
    assert data.count(b"\n") == (len(made) + 2 if made else 1)


def test_names_that_no_encoding_has_come_back(tmp_path: Path) -> None:
    odd = {Key("test_\udc80.py::t", "", "peak", "cpu"): Entry(1)}
    put(tmp_path / "b.json", odd)
    assert load(tmp_path / "b.json") == odd


@pytest.mark.parametrize("text", ["\ufeff" + TEXT, TEXT.replace("\n", "\r\n")])
def test_changes_by_editors_are_not_damage(tmp_path: Path, text: str) -> None:
    assert load(write(tmp_path / "b.json", text)) == ENTRIES


def test_a_newer_minor_version_is_read_and_not_written(tmp_path: Path) -> None:
    text = TEXT.replace('"schema": 1.1', '"schema": 1.2').replace('"bytes"', '"more": [], "bytes"')
    path = write(tmp_path / "b.json", text)
    assert load(path) == ENTRIES
    with pytest.raises(AttnMemError) as caught:
        put(path, {A: Entry(9)})
    assert str(caught.value) == (
        f"cannot update {path}: its schema is 1.2, and this version would lose the fields"
        " that it does not know; update with a newer pytest-attnmem"
    )
    assert path.read_bytes() == text.encode()


ONE = '{"schema": 1, "entries": [%s]}'
LINE = '{"test": "t", "metric": "peak", "on": "cpu", "bytes": 1}'
BAD = {
    "empty": (
        "",
        "Expecting value: line 1 column 1 (char 0); restore the file, or delete it and run"
        " --attnmem-update all",
    ),
    "a part": (TEXT[:62], "Unterminated string starting at: line 2 column 32 (char 60)"),
    "a conflict": (
        TEXT.replace("\n", "\n<<<<<<< HEAD\n", 1),
        "a merge left a conflict in line 2; keep the entries of both sides, and run"
        " --attnmem-update all",
    ),
    "a list": ("[]", "its schema is None, this version reads 1"),
    "another schema": ('{"schema": 2}', "its schema is 2, this version reads 1"),
    "an older schema": ('{"schema": 0.9}', "its schema is 0.9, this version reads 1"),
    "a schema that is none": ('{"schema": true}', "its schema is True, this version reads 1"),
    "no entries": ('{"schema": 1}', "it has no list of 'entries'; restore the file, or "),
    "two lists, as a merge leaves them": (
        '{"schema": 1, "entries": [], "entries": []}',
        "an object has 'entries' twice; restore the file, or ",
    ),
    "two numbers of bytes": (ONE % LINE.replace("}", ', "bytes": 2}'), "an object has 'bytes' "),
    "a text for tensors": (
        ONE % LINE.replace("}", ', "held": "mm"}'),
        "entry 1 is not valid: {'test': 't', 'metric': 'peak', 'on': 'cpu', 'bytes': 1, 'held':"
        " 'mm'}",
    ),
    "a number": (ONE % "5", "entry 1 is not valid: 5"),
    "no test": (ONE % '{"test": ""}', "entry 1 is not valid: {'test': ''}"),
    "a text for bytes": (
        ONE % LINE.replace('"bytes": 1', '"bytes": "1"'),
        "entry 1 is not valid: {'test': 't', 'metric': 'peak', 'on': 'cpu', 'bytes': '1'}",
    ),
    "half a byte": (
        ONE % LINE.replace('"bytes": 1', '"bytes": 1.5'),
        "entry 1 is not valid: {'test': 't', 'metric': 'peak', 'on': 'cpu', 'bytes': 1.5}",
    ),
    "no metric": (
        ONE % LINE.replace("peak", "speed"),
        "entry 1 is not valid: {'test': 't', 'metric': 'speed', 'on': 'cpu', 'bytes': 1}",
    ),
    "two of one": (ONE % f"{LINE}, {LINE}", "two entries have the test 't' on cpu; delete one"),
    "a depth": ("[" * 100_000, ""),
    "no text": (b"\xff\xfe\xff", ""),
}


@pytest.mark.parametrize(("text", "why"), BAD.values(), ids=BAD)
def test_a_damaged_file_is_refused_in_one_line_and_left_alone(
    tmp_path: Path, text: str | bytes, why: str
) -> None:
    path = write(tmp_path / "b.json", text)
    before = path.read_bytes()
    for attempt in (load, lambda path: put(path, {A: Entry(1)})):
        with pytest.raises(AttnMemError) as caught:
            attempt(path)
        assert str(caught.value).startswith(f"cannot read baseline {path}: {why}")
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_missing_file_is_refused_unless_it_is_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    with pytest.raises(AttnMemError) as caught:
        load(path)
    assert str(caught.value) == (
        f"cannot read baseline {path}: No such file or directory; --attnmem-update all writes one"
    )
    put(path, ENTRIES)
    assert load(path) == ENTRIES


def test_an_update_returns_the_entries_before_and_after(tmp_path: Path) -> None:
    path, more = write(tmp_path / "b.json", TEXT), {A: Entry(9)}
    assert update(path, lambda before: with_all(before, more)) == (ENTRIES, {**ENTRIES, **more})


def test_a_file_that_stays_as_it_was_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "b.json", TEXT.replace("\n", "\r\n"))
    written = path.stat()
    put(path, ENTRIES)
    after = path.stat()  # its time of access may be another one
    assert (after.st_ino, after.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_nothing_else_is_left_in_the_folder_but_the_file_of_another_baseline(
    tmp_path: Path,
) -> None:
    write(tmp_path / ".b.json.bykill_9.tmp", "by kill -9")
    other = write(tmp_path / ".b.json.gpu.12345678.tmp", "")
    put(tmp_path / "b.json", ENTRIES)
    assert {*tmp_path.iterdir()} == {tmp_path / "b.json", other}
