"""An installation by an installer that copies a torch of three files."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from unavailable import refusal

from pytest_attnmem.nulldevice import installation, kept_build
from pytest_attnmem.nulldevice.installation import Installer, check_space, keep
from pytest_attnmem.nulldevice.torch_build import TorchBuild, Version

from .written_torch import write_torch

CPU = Version("2.13.0+cpu", "", "abc")


class Copies(Installer):
    """Stands for uv or pip."""

    def __init__(self, **torch):
        self.torch = torch
        self.calls = []

    def install(self, wanted, target, *more):
        self.calls.append((*wanted, *more))
        if "--no-deps" in more:
            write_torch(target, **self.torch)
        else:
            path = target / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9"
            path.parent.mkdir(parents=True)
            path.touch()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pytest-attnmem"


def silent(text):
    """Shows nothing."""


def test_the_build_is_there_when_it_is_whole(cache):
    said = []
    kept = keep(CPU, installer := Copies(), said.append)
    assert kept == kept_build.folder("2.13.0")
    assert kept_build.is_whole(kept)
    assert installer.calls == [("torch==2.13.0,!=2.13.0+cpu", "--no-deps")]
    assert said[0] == "fetching the CUDA build of torch 2.13.0"
    assert [path.name for path in cache.iterdir() if path.name.endswith(".part")] == []


@pytest.mark.parametrize(
    ("torch", "found", "what"),
    [
        ({"cuda": "None", "version": "2.13.0"}, "2.13.0", "a build without CUDA"),
        ({"commit": "other"}, "2.13.0+cu130", "another commit"),
    ],
)
def test_another_torch_is_refused_and_does_not_stay(cache, torch, found, what):
    text = refusal(keep, CPU, Copies(**torch), silent)
    assert text == (
        f"the torch {found} that was found for torch 2.13.0+cpu is {what}: name another source"
        " with --index-url or --wheels"
    )
    assert [path.name for path in cache.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("cut_short", [False, True])
def test_a_second_try_goes_on_with_what_was_fetched_unless_it_is_cut_short(cut_short):
    kept = kept_build.folder("2.13.0")
    part = kept.with_name(kept.name + ".part")
    write_torch(part)
    if cut_short:
        (part / "torch" / "version.py").write_text("cut")
    keep(CPU, installer := Copies(), silent)
    assert len(installer.calls) == cut_short
    assert kept_build.is_whole(kept)


def test_two_at_once_do_not_disturb_each_other():
    kept = kept_build.folder("2.13.0")
    with installation._alone(kept):
        text = refusal(keep, CPU, Copies(), silent)
    assert text == f"another process installs {kept.name}; wait for it"


def test_a_full_disk_is_told_before_anything_is_fetched(tmp_path, monkeypatch):
    usage = SimpleNamespace(free=1 << 30)
    monkeypatch.setattr(installation.shutil, "disk_usage", lambda folder: usage)
    assert refusal(check_space, tmp_path / "not" / "yet", 4 << 30) == (
        f"{tmp_path} has 1.0 GiB of free space, and the installation needs 4.0 GiB: set"
        " XDG_CACHE_HOME to a folder on another disk"
    )


@pytest.fixture
def torch():
    """The kept build."""
    kept = keep(CPU, Copies(), silent)
    return TorchBuild("2.13.0+cu130", "13.0", kept / "torch", (kept / "nvidia",), kept)


def test_a_part_is_merged_into_the_kept_build(torch, monkeypatch):
    (packages,), installer = torch.packages, Copies()
    (packages / "cu13").mkdir(parents=True)
    monkeypatch.setattr(installation.parts, "requirements", lambda torch, part: [f"nvidia-{part}"])
    assert refusal(installation.add, torch, "cudnn", installer, silent).startswith(
        "torch 2.13.0+cu130 is made for cuDNN 0.0, which cannot plan"
    )
    installation.add(torch, "nvrtc", installer, silent)
    assert installer.calls[-1] == ("nvidia-nvrtc",)
    assert sorted(path.name for path in packages.iterdir()) == ["cu13", "cudnn"]


def test_headers_are_added_where_the_runtime_must_be_compiled(torch, monkeypatch):
    installer = Copies()
    for lacks in (False, True):
        assert installer.calls == []
        monkeypatch.setattr(installation.build, "lacks_headers", lambda torch, lacks=lacks: lacks)
        installation.add_headers(torch, installer, silent)
    assert installer.calls == [("nvidia-cuda-runtime==13.*",)]


def test_a_part_that_torch_does_not_name_is_refused(tmp_path):
    torch = TorchBuild("2.13.0", "13.0", tmp_path / "torch", ())
    text = refusal(installation.add, torch, "triton", Copies(), silent)
    assert text == "torch 2.13.0 names no package for triton"


def test_what_was_kept_is_removed_with_what_is_not_whole():
    kept = keep(CPU, Copies(), silent)
    write_torch(kept.with_name(kept.name + ".part"))
    assert installation.remove(kept) > 0
    assert not kept.exists()
    assert installation.remove(kept) == 0


class TestInstaller:
    @pytest.fixture(autouse=True)
    def neither(self, monkeypatch):
        monkeypatch.delenv("UV", raising=False)
        monkeypatch.setattr(installation.shutil, "which", lambda name: None)
        monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None)

    def test_uv_comes_first_and_copies_its_files(self, monkeypatch):
        monkeypatch.setattr(installation.shutil, "which", lambda name: f"/bin/{name}")
        command = Installer(["--index-url", "URL"]).command(["torch"], Path("/t"), "--no-deps")
        assert command == [
            *("/bin/uv", "pip", "install", "--link-mode", "copy"),
            *("--index-strategy", "unsafe-best-match", "--python", sys.executable),
            *("--index-url", "URL", "--no-deps", "--target", "/t", "torch"),
        ]

    def test_pip_comes_second(self, monkeypatch):
        monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: object())
        command = Installer().command(["triton"], None)
        assert command == [sys.executable, "-m", "pip", "install", "triton"]

    def test_an_environment_with_neither_is_refused(self):
        assert refusal(Installer) == (
            "attnmem install needs uv or pip, and this environment has neither: pip install uv"
        )

    @pytest.fixture
    def uv(self, monkeypatch, tmp_path):
        """Returns a function that makes uv a script of these lines."""
        program = tmp_path / "uv"
        monkeypatch.setenv("UV", str(program))

        def write(lines):
            program.write_text(f"#!/bin/sh\n{lines}\n")
            program.chmod(0o755)

        return write

    def test_an_installer_that_fails_is_one_line(self, uv, tmp_path):
        uv("exit 3")
        assert refusal(Installer().install, ["torch"], tmp_path) == (
            "uv ended with 3 and installed no torch: see its lines above; --index-url or --wheels"
            " name another source"
        )

    @pytest.mark.parametrize("options", [[], ["--index-url", "URL"]], ids=["own", "named"])
    def test_a_choice_of_the_cpu_build_does_not_reach_it(self, options, uv, monkeypatch, tmp_path):
        uv(f'echo "backend=$UV_TORCH_BACKEND $PWD" > {tmp_path}/seen')
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("UV_TORCH_BACKEND", "cpu")
        Installer(options).install(["torch"], tmp_path)
        # The settings of the project count as long as no source is named.
        folder = "/" if options else tmp_path
        assert (tmp_path / "seen").read_text() == f"backend= {folder}\n"
