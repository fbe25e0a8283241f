"""The cache is preloaded from only if nobody else can write to it."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from unavailable import refusal

from pytest_attnmem.nulldevice import build
from pytest_attnmem.nulldevice.build import check_trusted, make_trusted
from pytest_attnmem.nulldevice.elf import write
from pytest_attnmem.nulldevice.stubs import CALLS


@pytest.fixture
def cache(tmp_path):
    """A cache folder, made while files are writable by everybody."""
    before = os.umask(0)
    try:
        make_trusted(tmp_path / "home" / "pytest-attnmem" / "nulldevice")
    finally:
        os.umask(before)
    return tmp_path / "home" / "pytest-attnmem" / "nulldevice"


@pytest.fixture
def wheel(cache, monkeypatch, tmp_path):
    """Has the runtime come compiled, and builds go to the cache."""
    built = tmp_path / "cuda13.so"
    built.write_bytes(write(build.LIBRARY, []))
    monkeypatch.setattr(build, "_built", lambda major: built)
    monkeypatch.setattr(build, "cache_folder", lambda: cache)


def test_a_new_cache_is_its_user_s_alone_to_write_and_all_may_read_it(cache):
    assert [oct(path.stat().st_mode & 0o777) for path in (cache, cache.parent)] == ["0o755"] * 2
    check_trusted(cache)
    check_trusted(cache.parent)


def test_a_folder_that_others_may_write_to_is_refused(cache):
    cache.chmod(0o770)
    assert refusal(check_trusted, cache) == (
        f"the null device loads no library from {str(cache)!r}, which can be written by others:"
        f" chmod -R go-w {cache}, or set XDG_CACHE_HOME to a folder of your own"
    )


def test_a_folder_of_another_user_is_refused(cache, monkeypatch):
    owner = SimpleNamespace(st_uid=4242, st_mode=0o40755)
    monkeypatch.setattr(Path, "stat", lambda path, follow_symlinks=True: owner)
    assert refusal(check_trusted, cache) == (
        f"the null device loads no library from {str(cache)!r}, which belongs to user 4242:"
        " set XDG_CACHE_HOME to a folder of your own"
    )


def test_a_link_of_another_user_is_refused(cache, monkeypatch):
    monkeypatch.setattr(Path, "lstat", lambda path: SimpleNamespace(st_uid=7, st_mode=0o120777))
    assert "which belongs to user 7" in refusal(check_trusted, cache)


@pytest.mark.parametrize("depth", range(4))
def test_a_build_is_checked_from_the_library_up(wheel, depth):
    library = build.build_alone(13, []) / CALLS
    planted = [library, *library.parents][depth]
    planted.chmod(0o777)
    assert f"chmod -R go-w {planted}" in refusal(build.build_alone, 13, [])


@pytest.mark.parametrize("umask", [0o077, 0], ids=oct)
def test_another_user_may_read_a_build_and_not_write_it(wheel, umask):
    before = os.umask(umask)
    try:
        folder = build.build_alone(13, [])
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))} == {0o755}
