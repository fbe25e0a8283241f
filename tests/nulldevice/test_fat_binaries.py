import os
import struct
import sys
from types import SimpleNamespace

import pytest

from pytest_attnmem.nulldevice import installation

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="holes are made by Linux")

PAGE = 4096


def container(*codes):
    images = b"".join(struct.pack("<HHIQ", 2, 1, 16, len(code)) + code for code in codes)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(images)) + images


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A file whose section begins in its second page, with two containers and a gap."""
    section = container(b"a" * 3 * PAGE, b"b" * 100) + bytes(8) + container(b"c" * 2 * PAGE)
    path = tmp_path / "libtorch_cuda.so"
    path.write_bytes(b"h" * PAGE + section + b"t" * 10)
    monkeypatch.setattr(installation.elf, "section", lambda path, name: (PAGE, len(section)))
    return path


def test_only_whole_pages_of_code_become_holes(library):
    before, blocks = library.read_bytes(), library.stat().st_blocks
    saved = installation.give_back(library)
    after = library.read_bytes()
    assert saved == 3 * PAGE  # two of the first image and one of the third
    assert library.stat().st_blocks <= blocks - saved // 512
    assert len(after) == len(before)
    changed = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert len(changed) == saved
    assert {before[at : at + 1] for at in changed} == {b"a", b"c"}
    assert {after[at] for at in changed} == {0}  # so the headers are as they were


def test_a_library_without_code_of_a_gpu_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(installation.elf, "section", lambda path, name: (0, 0))
    assert installation.give_back(tmp_path / "none") == 0


def test_a_file_system_without_holes_is_an_error_of_the_system(library, monkeypatch):
    libc = SimpleNamespace(fallocate64=lambda *_: -1)
    monkeypatch.setattr(installation.ctypes, "CDLL", lambda *_, **__: libc)
    monkeypatch.setattr(installation.ctypes, "get_errno", lambda: 95)
    with pytest.raises(OSError, match=os.strerror(95)):
        installation.give_back(library)
