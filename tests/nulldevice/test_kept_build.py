import importlib.resources
import os
import subprocess
import sys

import pytest
from unavailable import refusal

from pytest_attnmem.nulldevice import kept_build

TEXT = (
    importlib.resources.files("pytest_attnmem.nulldevice").joinpath("front.pth").read_text("utf-8")
)


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}{sys.abiflags}"
    assert kept_build.folder("2.13.0").parent == tmp_path / "pytest-attnmem"
    assert kept_build.folder("2.13.0").name.startswith(f"torch-2.13.0-{tag}-")


def test_a_folder_without_torch_is_not_whole(tmp_path):
    assert not kept_build.is_whole(tmp_path)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").touch()
    assert kept_build.is_whole(tmp_path)


@pytest.fixture
def first(tmp_path):
    """Returns a function that returns the first entry of a process's path, with the line read."""
    (tmp_path / "front.pth").write_text(TEXT)
    script = f"import site, sys; site.addsitedir({str(tmp_path)!r}); print(sys.path[0])"

    def run(*options, **variables):
        command = [sys.executable, "-S", *options, "-c", script]
        over = {**os.environ, **variables}
        return subprocess.run(command, env=over, stdout=-1, text=True, check=True).stdout.strip()

    return run


@pytest.mark.parametrize("options", [(), ("-I",), ("-E",)])
@pytest.mark.parametrize("tag", ["", "cp27-x86_64"])
def test_the_line_in_site_packages_puts_the_build_of_this_python_first(first, options, tag):
    own = f"cp{sys.version_info[0]}{sys.version_info[1]}{sys.abiflags}-x86_64"
    front = f"/cache/torch-1-{tag or own}"
    assert (first(*options, **{kept_build.FRONT: front}) == front) == (not tag)


@pytest.mark.parametrize("folder", ["pytest_attnmem/backends/null/startup", "elsewhere"])
def test_the_line_adds_the_start_of_this_package_and_of_no_other(first, folder):
    start = f"/site/{folder}"
    assert (first("-I", ATTNMEM_NULL_START=start) == start) == (folder != "elsewhere")


def test_without_the_line_pythonpath_takes_its_place(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    front = tmp_path / "front"
    path = kept_build.variables(front, {"PYTHONPATH": "/mine"})
    assert path == {kept_build.FRONT: str(front), "PYTHONPATH": f"{front}{os.pathsep}/mine"}
    assert kept_build.variables(front, {})["PYTHONPATH"] == str(front)
    (tmp_path / kept_build.LINE).touch()
    assert kept_build.variables(front, {"PYTHONPATH": "/mine"}) == {kept_build.FRONT: str(front)}


def test_another_torch_that_came_first_is_refused():
    over = {kept_build.FRONT: "/cache/torch-2.13.0"}
    kept_build.check_imported("/cache/torch-2.13.0/torch/__init__.py", over)
    kept_build.check_imported("/site/torch/__init__.py", {})
    assert refusal(kept_build.check_imported, "/site/torch/__init__.py", over) == (
        "torch was imported from /site/torch, and not from /cache/torch-2.13.0, where the null"
        " device has its CUDA build: install pytest-attnmem into site-packages, where its .pth file"
        " is read"
    )


def test_a_worker_with_the_path_of_its_controller_imports_the_kept_build(monkeypatch):
    monkeypatch.setattr(sys, "path", ["/site"])
    kept_build.put_in_front()
    assert sys.path == ["/site"]
    monkeypatch.setenv(kept_build.FRONT, "/cache/torch-2.13.0")
    for _ in range(2):
        kept_build.put_in_front()
        assert sys.path == ["/cache/torch-2.13.0", "/site"]
