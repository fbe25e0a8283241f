"""A lock between processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_attnmem.baselines import file_lock
from pytest_attnmem.baselines.file_lock import locked
from pytest_attnmem.errors import AttnMemError

HOLDER = """
import sys, time
from pathlib import Path
from pytest_attnmem.baselines.file_lock import locked

with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.lock"


def test_the_file_is_there_while_it_is_locked(path: Path) -> None:
    with locked(path):
        assert path.exists()
    assert not path.exists()


def test_one_that_is_left_behind_locks_nobody_out(path: Path) -> None:
    path.touch()
    with locked(path, patience_s=0):
        pass
    assert not path.exists()


def test_another_process_waits_and_not_forever(path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(AttnMemError) as caught, locked(path, patience_s=0):
            pytest.fail("two have it")
        assert str(caught.value) == f"another process keeps {path} locked; try again"
    finally:
        holder.kill()
        holder.communicate()
    with locked(path, patience_s=0):  # the system took it back
        pass


def test_it_is_let_go_of_when_the_body_raises(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(path):
        raise ZeroDivisionError
    with locked(path, patience_s=0):
        pass


def test_a_folder_that_is_not_there_is_the_systems_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError), locked(path.parent / "none" / "x.lock"):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="what is open cannot be removed there")
def test_a_lock_on_a_file_that_somebody_has_removed_is_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, removed = file_lock._take, []

    def slowly(descriptor: int) -> bool:
        if not removed:  # by whoever had it, between our opening and our locking
            os.unlink(path)
            removed.append(path)
        return take(descriptor)

    monkeypatch.setattr(file_lock, "_take", slowly)
    with locked(path):
        assert path.exists()
