"""Updates of the baseline's file: all or nothing, and one process at a time."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
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


#: Writes entry after entry, 300 tests each time.
WRITER = """
import sys
from pathlib import Path
from pytest_attnmem.baselines.entries import Entry, Key, with_all
from pytest_attnmem.baselines.file import update

for turn in range(12):
    measured = {Key(f"{sys.argv[2]}{i}", "", "peak", "cpu"): Entry(turn) for i in range(300)}
    update(Path(sys.argv[1]), lambda before: with_all(before, measured))
"""


def test_sessions_that_update_at_once_lose_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    command = [sys.executable, "-c", WRITER, str(path)]
    for one in [subprocess.Popen([*command, name]) for name in "xyz"]:
        assert one.wait(timeout=60) == 0
    assert load(path) == {
        Key(f"{name}{i}", "", "peak", "cpu"): Entry(11) for name in "xyz" for i in range(300)
    }
    assert [left.name for left in tmp_path.iterdir()] == ["b.json"]


#: Kills itself in the middle of a step of an update.
KILLED = """
import os, signal, sys
from pathlib import Path
from pytest_attnmem.baselines.entries import Entry, Key
from pytest_attnmem.baselines.file import update

step, when = sys.argv[2], sys.argv[3]
owner = Path if step == "unlink" else os  # filelock calls os.unlink too
original = getattr(owner, step)
def dying(*args, **kwargs):
    if when == "after":
        original(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
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
    put(path, {A: Entry(8)})  # the lock's file that is left behind locks nobody out
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


def _no_temporary_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refused)


def _a_folder_for_a_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.with_name(".b.json.lock").mkdir()


def _a_folder_that_is_read_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = os.open

    def read_only(name: str, flags: int, *args: int) -> int:
        if flags & os.O_CREAT:  # not by its permissions: root may write anywhere
            raise OSError(30, "Read-only file system")
        return usual(name, flags, *args)

    monkeypatch.setattr("os.open", read_only)


def _no_filelock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "filelock", None)


@pytest.mark.parametrize(
    ("obstacle", "why"),
    [
        (_no_temporary_file, "Permission denied"),
        (_a_folder_for_a_lock, "Is a directory"),
        (_a_folder_that_is_read_only, "Read-only file system"),
        (_no_filelock, "filelock is not installed; pip install filelock"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    obstacle: Callable[[Path, pytest.MonkeyPatch], None],
    why: str,
) -> None:
    path = write(tmp_path / "b.json", TEXT)
    obstacle(path, monkeypatch)
    with pytest.raises(AttnMemError) as caught:
        put(path, {A: Entry(8)})
    assert str(caught.value) == f"cannot write {path}: {why}"
    assert load(path) == ENTRIES
