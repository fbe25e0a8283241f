"""Updates of the baseline's file: all or nothing, and one process at a time."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_attnmem.baselines import file
from pytest_attnmem.baselines.entries import Entries, Entry, Key, with_all
from pytest_attnmem.baselines.file import load, render, update
from pytest_attnmem.errors import AttnMemError

A = Key("test_a.py::test[1]", "", "peak", "cpu")
ENTRIES = {A: Entry(7)}
TEXT = render(ENTRIES)


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def put(path: Path, measured: Entries) -> None:
    update(path, lambda before: with_all(before, measured))


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
from pytest_attnmem.baselines.entries import Entry, Key
from pytest_attnmem.baselines.file import update
from pytest_attnmem.baselines.entries import with_all

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
owner = Path if step == "unlink" else os  # filelock calls os.unlink too
original = getattr(owner, step)
def dying(*args, **kwargs):
    if when == "after":
        original(*args, **kwargs)
    die()
setattr(owner, step, dying)
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


#: Locks a baseline's file until it is killed.
HOLDER = """
import sys, time
from pathlib import Path
from pytest_attnmem.baselines.file import update

def wait(before):
    print("locked", flush=True)
    time.sleep(60)

update(Path(sys.argv[1]), wait)
"""


def test_another_process_waits_and_not_forever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.json"
    monkeypatch.setattr(file, "PATIENCE_S", 0)
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "locked\n"
            with pytest.raises(AttnMemError) as caught:
                put(path, ENTRIES)
        finally:
            holder.kill()
    lock = tmp_path / ".b.json.lock"
    assert str(caught.value) == f"another process keeps {lock} locked; try again"
    assert lock.exists()
    put(path, ENTRIES)  # the system took the lock back
    assert not lock.exists()


def test_a_lock_file_that_is_left_behind_locks_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "PATIENCE_S", 0)
    lock = write(tmp_path / ".b.json.lock", "")
    put(tmp_path / "b.json", ENTRIES)
    assert not lock.exists()


def test_the_lock_is_released_when_an_update_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "PATIENCE_S", 0)
    with pytest.raises(ZeroDivisionError):
        update(tmp_path / "b.json", lambda before: {A: Entry(1 // 0)})
    assert [*tmp_path.iterdir()] == []
    put(tmp_path / "b.json", ENTRIES)


@posix
def test_a_lock_on_a_file_that_another_process_removed_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    take, removed = fcntl.flock, []

    def slowly(descriptor: int, operation: int) -> None:
        if not removed:  # by the process that had it, between our opening and our locking
            removed.append((tmp_path / ".b.json.lock").unlink())
        take(descriptor, operation)

    def look(before: Entries) -> Entries:
        assert (tmp_path / ".b.json.lock").exists()
        return ENTRIES

    monkeypatch.setattr(fcntl, "flock", slowly)
    update(tmp_path / "b.json", look)
    assert removed


def test_a_folder_that_is_missing_is_one_line_and_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "none" / "b.json"
    with pytest.raises(AttnMemError) as caught:
        put(path, ENTRIES)
    assert str(caught.value) == f"cannot write {path}: No such file or directory"
    assert [*tmp_path.iterdir()] == []


def test_a_lock_that_cannot_be_made_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "b.json", TEXT)
    (tmp_path / ".b.json.lock").mkdir()
    with pytest.raises(AttnMemError) as caught:
        put(path, {A: Entry(8)})
    assert str(caught.value) == f"cannot write {path}: Is a directory"


def test_a_folder_that_is_read_only_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "b.json", TEXT)
    usual = os.open

    def read_only(name: str, flags: int, *args: int) -> int:
        if flags & os.O_CREAT:  # not by its permissions: root may write anywhere
            raise OSError(30, "Read-only file system")
        return usual(name, flags, *args)

    monkeypatch.setattr("os.open", read_only)
    with pytest.raises(AttnMemError) as caught:
        put(path, {A: Entry(8)})
    assert str(caught.value) == f"cannot write {path}: Read-only file system"
    assert load(path) == ENTRIES


def test_without_filelock_the_refusal_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "b.json", TEXT)
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(AttnMemError) as caught:
        put(path, {A: Entry(8)})
    assert (
        str(caught.value) == f"cannot write {path}: filelock is not installed; pip install filelock"
    )
    assert load(path) == ENTRIES
