import importlib.resources
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice import kept_build

LINE = (
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


@pytest.mark.parametrize("options", [(), ("-I",), ("-E",)])
@pytest.mark.parametrize("tag", ["", "cp27-x86_64"])
def test_the_line_in_site_packages_puts_the_build_of_this_python_first(tmp_path, options, tag):
    own = f"cp{sys.version_info[0]}{sys.version_info[1]}{sys.abiflags}-x86_64"
    front = tmp_path / f"torch-1-{tag or own}"
    site = tmp_path / "site"
    site.mkdir()
    (site / "front.pth").write_text(LINE)
    script = (
        f"import site, sys; site.addsitedir({str(site)!r}); print({str(front)!r} == sys.path[0])"
    )
    done = subprocess.run(
        [sys.executable, *options, "-c", script],
        env={**os.environ, kept_build.FRONT: str(front)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(not tag)


def test_a_process_without_the_line_puts_the_build_first_itself(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", ["other"])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    kept_build.put_in_front({})
    assert sys.path == ["other"]
    kept_build.put_in_front({kept_build.FRONT: str(tmp_path)})
    kept_build.put_in_front({kept_build.FRONT: str(tmp_path)})
    assert sys.path == [str(tmp_path), "other"]


def test_a_torch_that_was_imported_before_is_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__file__="/site/torch/__init__.py"))
    with pytest.raises(BackendUnavailable) as error:
        kept_build.put_in_front({kept_build.FRONT: str(tmp_path)})
    assert str(error.value) == (
        f"torch was imported from /site/torch before the null device could put {tmp_path} in front"
        " of it: install pytest-attnmem into site-packages, where its .pth file is read"
    )
