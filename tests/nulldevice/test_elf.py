import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice.elf import defined, undefined

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ELF files are Linux's")


@pytest.fixture
def library(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    source, path = tmp_path / "a.c", tmp_path / "liba.so"
    source.write_text(
        "extern int wanted(void); static int hidden(void) { return wanted(); }"
        "int given(void) { return hidden(); }"
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)
    return path


def test_what_a_library_gives_and_wants(library):
    assert "given" in defined(library)
    assert "wanted" in undefined(library)
    assert not {"wanted", "hidden"} & defined(library)
    assert not {"given", "hidden"} & undefined(library)


def test_the_library_of_this_process_is_read():
    mapped = Path("/proc/self/maps").read_text("utf-8").split()
    libc = next(path for path in mapped if "/libc.so" in path or "/libc.musl" in path)
    assert {"malloc", "printf"} <= defined(libc)


@pytest.mark.parametrize("text", ["#!/bin/sh\n", ""])
def test_a_text_is_no_library(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(BackendUnavailable) as error:
        defined(path)
    assert str(error.value) == (
        f"the null device cannot use {path}, which is no 64-bit little-endian ELF file: remove it,"
        " or install its package anew"
    )


@pytest.mark.parametrize("length", [6, 40, 64, 1000, None])
def test_a_library_cut_short_or_with_a_section_table_beyond_its_end_is_told(library, length):
    image = bytearray(library.read_bytes())[:length]
    if length is None:
        struct.pack_into("<Q", image, 40, 1 << 40)
    library.write_bytes(image)
    with pytest.raises(BackendUnavailable, match="which is cut short or damaged"):
        defined(library)
