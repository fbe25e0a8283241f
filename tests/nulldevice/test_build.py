import ctypes
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice import build
from pytest_attnmem.nulldevice.torch_build import TorchBuild


@pytest.fixture
def torch(tmp_path):
    headers = tmp_path / "include"
    headers.mkdir()
    (headers / "cuda.h").write_text("#define CUDA_VERSION 13000\n")
    (headers / "cuda_runtime_api.h").touch()
    return TorchBuild("2.13.0+cu130", "13.0", (), (), headers)


def refusal(action, *arguments):
    with pytest.raises(BackendUnavailable) as error:
        action(*arguments)
    text = str(error.value)
    assert "\n" not in text
    return text


def test_the_key_is_one_for_one_torch_compiler_and_source(torch):
    assert build.key(torch, "cc 12") == build.key(torch, "cc 12")
    assert len(build.key(torch, "cc 12")) == 20


def test_the_key_changes_with_torch_with_cuda_and_with_the_compiler(torch):
    keys = {build.key(torch, "cc 12"), build.key(torch, "cc 13")}
    keys.add(build.key(replace(torch, version="2.14.0"), "cc 12"))
    keys.add(build.key(replace(torch, cuda="12.8"), "cc 12"))
    (torch.headers / "cuda.h").write_text("#define CUDA_VERSION 12080\n")
    keys.add(build.key(torch, "cc 12"))
    assert len(keys) == 5


def test_the_key_changes_with_the_source(torch, tmp_path, monkeypatch):
    before = build.key(torch, "cc")
    source = tmp_path / "source"
    source.mkdir()
    (source / "memory.c").write_text("int other;")
    monkeypatch.setattr(build, "_SOURCE", source)
    assert build.key(torch, "cc") != before


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert build.cache_folder() == Path("/somewhere/attnmem/nulldevice")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build.cache_folder() == tmp_path / ".cache" / "attnmem" / "nulldevice"


def test_a_cache_that_cannot_be_preloaded_from_is_refused(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/my cache")
    assert refusal(build.cache_folder) == (
        "the null device needs a cache folder without spaces and colons, not"
        " /my cache/attnmem/nulldevice: set XDG_CACHE_HOME"
    )


def test_another_system_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert refusal(build.build) == "the null device needs Linux, and this is darwin"


def test_a_real_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(build.os.path, "exists", lambda path: path == "/dev/nvidiactl")
    assert refusal(build.refuse_elsewhere) == (
        "the null device cannot run beside a GPU: found /dev/nvidiactl"
    )


def test_a_real_driver_is_refused_and_our_own_is_not(monkeypatch):
    class Driver:
        pass

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(build.os.path, "exists", lambda path: False)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver())
    assert refusal(build.refuse_elsewhere) == (
        "the null device cannot run beside a real driver: found libcuda.so.1"
    )
    Driver.attnmem_null_unknown = None
    build.refuse_elsewhere()


def test_a_machine_without_a_compiler_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert refusal(build.find_compiler) == (
        "the null device needs a C compiler: found none of cc, gcc and clang"
    )
    monkeypatch.setenv("CC", "tcc -m64")
    assert refusal(build.find_compiler) == (
        "the null device needs a C compiler: found no CC=tcc -m64"
    )


@pytest.mark.parametrize(
    ("there", "wanted", "found"),
    [
        (("cc", "gcc"), "", ("cc",)),
        (("clang",), "", ("clang",)),
        (("gcc", "cc"), "gcc -m64", ("gcc", "-m64")),
    ],
)
def test_a_compiler_is_found(monkeypatch, tmp_path, there, wanted, found):
    for name in there:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", wanted)
    assert build.find_compiler() == (str(tmp_path / found[0]), *found[1:])


def test_an_error_of_the_compiler_is_one_line(torch, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho note >&2\necho 'a.c:1: error: no' >&2\nexit 1\n")
    compiler.chmod(0o755)
    text = refusal(build._build_into, tmp_path / "out" / "key", torch, (str(compiler),))
    assert text == f"the null device cannot be compiled by {compiler}: a.c:1: error: no"
    assert list((tmp_path / "out").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_one_line(torch, tmp_path):
    (tmp_path / "file").touch()
    text = refusal(build._build_into, tmp_path / "file" / "x" / "key", torch, ("cc",))
    assert text.startswith("the null device cannot write its cache: ")


def test_the_second_of_two_builders_uses_what_the_first_made(torch, tmp_path, monkeypatch):
    folder = tmp_path / "key"

    def compile_late(scratch, product, *_):
        (product / build.LIBRARY).write_text("second")
        folder.mkdir()
        (folder / build.LIBRARY).write_text("first")

    monkeypatch.setattr(build, "_compile", compile_late)
    build._build_into(folder, torch, ("cc",))
    assert (folder / build.LIBRARY).read_text() == "first"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
