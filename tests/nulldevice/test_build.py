import ctypes
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from unavailable import refusal

from pytest_attnmem.nulldevice import build
from pytest_attnmem.nulldevice.elf import Function, write
from pytest_attnmem.nulldevice.torch_build import TorchBuild


@pytest.fixture
def torch(tmp_path):
    folder = tmp_path / "site-packages" / "torch"
    (folder / "lib").mkdir(parents=True)
    packages = tmp_path / "site-packages" / "nvidia"
    headers = packages / "cu13" / "include"
    headers.mkdir(parents=True)
    (headers / "cuda.h").write_text("#define CUDA_VERSION 13000\n")
    (headers / "cuda_runtime_api.h").touch()
    return TorchBuild("2.13.0+cu130", "13.0", folder, (packages,))


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with a cache of its own, and without a compiled runtime."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "_built", lambda major: tmp_path / f"cuda{major}.so")


def test_the_key_changes_with_torch_with_cuda_with_its_place_and_with_packages(torch, tmp_path):
    assert build._key(torch) == build._key(torch)
    assert len(build._key(torch)) == 16
    others = (None, replace(torch, version="2.14.0"), replace(torch, cuda="12.8"))
    keys = {build._key(one) for one in (torch, *others, replace(torch, folder=tmp_path))}
    (torch.packages[0] / "cudnn" / "lib").mkdir(parents=True)
    (torch.packages[0] / "cudnn" / "lib" / "libcudnn.so.9").touch()
    keys.add(build._key(torch))
    assert len(keys) == 6


def test_the_wheels_runtime_needs_no_compiler(torch, checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "find_compiler", lambda: pytest.fail("a compiler was looked for"))
    (tmp_path / "cuda13.so").write_bytes(write("libcuda.so.1", [Function("cuInit")]))
    folder = build.build_alone(13, torch.packages)
    assert {path.name for path in folder.iterdir()} == {
        "libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1", "libattnmem-calls.so",
        "names",
    }  # fmt: skip
    assert build.build_alone(13, torch.packages) == folder


def test_a_checkout_needs_headers_of_the_same_cuda(torch, checkout):
    assert refusal(build.build_alone, 12, torch.packages) == (
        "this copy of pytest-attnmem has no compiled runtime for the null device; to compile one"
        " needs CUDA's headers: pip install nvidia-cuda-runtime-cu12==12.*"
    )
    assert "pip install nvidia-cuda-runtime==14.*" in refusal(build.build_alone, 14, torch.packages)


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert build.cache_folder() == Path("/somewhere/pytest-attnmem/nulldevice")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build.cache_folder() == tmp_path / ".cache" / "pytest-attnmem" / "nulldevice"


def test_a_cache_that_cannot_be_preloaded_from_is_refused(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/my cache")
    assert refusal(build.cache_folder) == (
        "the null device needs a cache folder without spaces and colons, not"
        " /my cache/pytest-attnmem/nulldevice: set XDG_CACHE_HOME"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the null device is for Linux")
def test_a_cache_on_a_file_system_without_execution_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none" / "yet"))
    found = SimpleNamespace(f_flag=os.ST_NOEXEC)
    monkeypatch.setattr(os, "statvfs", lambda path: found if path == tmp_path else None)
    assert refusal(build.cache_folder) == (
        "the null device needs a cache folder that libraries can be loaded from, and"
        f" {tmp_path} is mounted noexec, as docker's --tmpfs is: set XDG_CACHE_HOME"
    )


def test_another_system_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert refusal(build.build) == "the null device needs Linux, and this is darwin; use simulated"
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(build.platform, "machine", lambda: "aarch64")
    assert (
        refusal(build.build) == "the null device needs x86-64, and this is aarch64; use simulated"
    )


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
    needs = "the null device needs a C compiler: found"
    for wanted, found in (("", "none of cc, gcc and clang"), ("tcc -m64", "no CC=tcc -m64")):
        monkeypatch.setenv("CC", wanted)
        assert refusal(build.find_compiler) == f"{needs} {found}"


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


def test_an_error_of_the_compiler_is_one_line(torch, checkout, tmp_path, monkeypatch):
    compiler = tmp_path / "cc"
    compiler.write_text(
        "#!/bin/sh\n[ $1 = --version ] && exit\n"
        "echo note >&2\necho 'a.c:1: error: no' >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    text = refusal(build.build_alone, 13, torch.packages)
    assert text == f"the null device cannot be compiled by {compiler}: a.c:1: error: no"
    assert list(build.cache_folder().iterdir()) == []


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    text = refusal(build._make, tmp_path / "file" / "x" / "key", lambda product: None)
    assert text.startswith("the null device cannot write its cache: ")
    assert text.endswith("; set XDG_CACHE_HOME to a folder of your own")


def test_the_second_of_two_builders_uses_what_the_first_made(tmp_path):
    folder = tmp_path / "key"

    def fill_late(product):
        (product / build.LIBRARY).write_text("second")
        folder.mkdir()
        (folder / build.LIBRARY).write_text("first")

    build._make(folder, fill_late)
    assert (folder / build.LIBRARY).read_text() == "first"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
