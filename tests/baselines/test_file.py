"""The file of the baseline: what is in it, and that it is written whole or not at all."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
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
{"schema": 1, "entries": [
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


def test_a_change_of_one_test_is_a_change_of_one_line() -> None:
    after = render({**ENTRIES, A: Entry(8)}).splitlines()
    assert [new for old, new in zip(TEXT.splitlines(), after, strict=True) if old != new] == [
        '{"test": "test_a.py::test[1]", "metric": "peak", "on": "cpu", "bytes": 8},'
    ]


@given(entries)
def test_what_was_written_is_read(made: dict[Key, Entry]) -> None:
    data = render(made).encode("utf-8", "backslashreplace")
    assert json.loads(data)["schema"] == 1
    assert data.count(b"\n") == (len(made) + 2 if made else 1)


@given(made=entries)
def test_every_entry_comes_back(tmp_path_factory: pytest.TempPathFactory, made: Entries) -> None:
    path = tmp_path_factory.mktemp("b") / "b.json"
    put(path, made)
    assert (load(path) if made else {}) == made


def test_names_that_no_encoding_has_come_back(tmp_path: Path) -> None:
    odd = {Key("test_\udc80.py::t", "", "peak", "cpu"): Entry(1)}
    put(tmp_path / "b.json", odd)
    assert load(tmp_path / "b.json") == odd


@pytest.mark.parametrize("text", ["\ufeff" + TEXT, TEXT.replace("\n", "\r\n")])
def test_what_editors_do_to_a_file_is_no_damage(tmp_path: Path, text: str) -> None:
    assert load(write(tmp_path / "b.json", text)) == ENTRIES


def test_a_newer_minor_version_is_read_and_not_written(tmp_path: Path) -> None:
    text = TEXT.replace('"schema": 1', '"schema": 1.2').replace('"bytes"', '"more": [], "bytes"')
    path = write(tmp_path / "b.json", text)
    assert load(path) == ENTRIES
    with pytest.raises(AttnMemError) as caught:
        put(path, {A: Entry(9)})
    assert str(caught.value) == (
        f"cannot update {path}: its schema is 1.2, and this version would lose what it does not"
        " know; update it with a newer one"
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
    "a part": (TEXT[:60], "Unterminated string starting at: line 2 column 32 (char 58)"),
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
        "entry 1 is none: {'test': 't', 'metric': 'peak', 'on': 'cpu', 'bytes': 1, 'held': 'mm'}",
    ),
    "a number": (ONE % "5", "entry 1 is none: 5"),
    "no test": (ONE % '{"test": ""}', "entry 1 is none: {'test': ''}"),
    "a text for bytes": (
        ONE % LINE.replace('"bytes": 1', '"bytes": "1"'),
        "entry 1 is none: {'test': 't', 'metric': 'peak', 'on': 'cpu', 'bytes': '1'}",
    ),
    "half a byte": (
        ONE % LINE.replace('"bytes": 1', '"bytes": 1.5'),
        "entry 1 is none: {'test': 't', 'metric': 'peak', 'on': 'cpu', 'bytes': 1.5}",
    ),
    "no metric": (
        ONE % LINE.replace("peak", "speed"),
        "entry 1 is none: {'test': 't', 'metric': 'speed', 'on': 'cpu', 'bytes': 1}",
    ),
    "two of one": (ONE % f"{LINE}, {LINE}", "two entries are of 't' on cpu; delete one"),
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


def test_an_update_tells_what_was_and_what_is(tmp_path: Path) -> None:
    path = write(tmp_path / "b.json", TEXT)
    more = {A: Entry(9)}
    assert update(path, lambda before: with_all(before, more)) == (ENTRIES, {**ENTRIES, **more})


def test_a_file_that_stays_as_it_was_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "b.json", TEXT.replace("\n", "\r\n"))
    written = path.stat()
    put(path, ENTRIES)
    assert path.stat() == written


def test_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    write(tmp_path / ".b.json.bykill_9.tmp", "by kill -9")
    put(tmp_path / "b.json", ENTRIES)
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]


def test_what_is_being_written_of_another_baseline_is_left_alone(tmp_path: Path) -> None:
    other = write(tmp_path / ".b.json.gpu.12345678.tmp", "")
    put(tmp_path / "b.json", ENTRIES)
    assert other.exists()


posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions and links are POSIX's")


@posix
def test_permissions_are_kept_and_those_of_a_new_file_are_the_usual(tmp_path: Path) -> None:
    path, plain = tmp_path / "b.json", write(tmp_path / "plain", "")
    put(path, ENTRIES)
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    put(path, {A: Entry(8)})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    real = write(tmp_path / "elsewhere" / "real.json", TEXT)
    link = tmp_path / "b.json"
    link.symlink_to(real)
    put(link, {A: Entry(8)})
    assert link.is_symlink()
    assert load(real)[A] == Entry(8)


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "b.json", TEXT)

    def refused(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refused)
    with pytest.raises(AttnMemError) as caught:
        put(path, {A: Entry(8)})
    assert str(caught.value) == f"cannot write {path}: Permission denied"
    assert load(path) == ENTRIES


@pytest.mark.parametrize("step", ["os.fsync", "os.chmod", "os.replace"])
def test_an_update_that_fails_half_way_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = write(tmp_path / "b.json", TEXT)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(step, full)
        with pytest.raises(AttnMemError, match=r"cannot write .*: No space left on device"):
            put(path, {A: Entry(8)})
    assert path.read_text("utf-8") == TEXT
    assert [left.name for left in tmp_path.iterdir()] == ["b.json"]


#: Writes entry after entry, 300 tests each time, and says when it has begun.
WRITER = """
import sys
from pathlib import Path
from pytest_attnmem.baselines.entries import Entry, Key, with_all
from pytest_attnmem.baselines.file import update

path, name, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for turn in range(rounds):
    measured = {Key(f"{name}{i}", "", "peak", "cpu"): Entry(turn) for i in range(300)}
    update(path, lambda before: with_all(before, measured))
    print(turn, flush=True)
"""


def writer(path: Path, name: str, rounds: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(rounds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_sessions_that_update_at_once_lose_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    writers = [writer(path, name, 12) for name in "xyz"]
    for one in writers:
        one.communicate(timeout=60)
        assert one.returncode == 0
    assert load(path) == {
        Key(f"{name}{i}", "", "peak", "cpu"): Entry(11) for name in "xyz" for i in range(300)
    }
    assert [left.name for left in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")
def test_a_session_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    for attempt in range(8):
        with writer(path, "x", 10_000) as killed:
            killed.stdout.readline()
            time.sleep(0.003 * attempt)  # somewhere in one of the next updates
            os.kill(killed.pid, signal.SIGKILL)
        values = {entry.nbytes for entry in load(path).values()}
        assert len(load(path)) == 300
        assert len(values) == 1
    put(path, {A: Entry(1)})  # nobody is locked out
    assert len(load(path)) == 301
    assert [left.name for left in tmp_path.iterdir()] == ["b.json"]


#: Kills itself in the middle of a step of an update.
KILLED = """
import os, signal, sys
from pathlib import Path
from pytest_attnmem.baselines.entries import Entry, Key
from pytest_attnmem.baselines.file import update

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

step, when = sys.argv[2], sys.argv[3]
original = getattr(os, step)
def dying(*args, **kwargs):
    if when == "after":
        original(*args, **kwargs)
    die()
setattr(os, step, dying)
update(Path(sys.argv[1]), lambda before: {**before, Key("new", "", "peak", "cpu"): Entry(1)})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")
@pytest.mark.parametrize(
    ("step", "when", "new"),
    [
        ("fsync", "before", False),
        ("chmod", "after", False),
        ("replace", "before", False),
        ("replace", "after", True),
        ("unlink", "before", True),
    ],
)
def test_killed_at_any_step_it_is_the_old_file_or_the_new_one(
    tmp_path: Path, step: str, when: str, new: bool
) -> None:
    path = write(tmp_path / "b.json", TEXT)
    command = [sys.executable, "-c", KILLED, str(path), step, when]
    assert subprocess.run(command, check=False, timeout=60).returncode == -signal.SIGKILL
    assert load(path) == (ENTRIES | ({Key("new", "", "peak", "cpu"): Entry(1)} if new else {}))
    put(path, {A: Entry(8)})
    assert load(path)[A] == Entry(8)
    assert [left.name for left in tmp_path.iterdir()] == ["b.json"]
