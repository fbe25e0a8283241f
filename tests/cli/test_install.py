"""``attnmem install null``, with an installation that is only noted."""

import pytest

from pytest_attnmem.cli import install, main
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice import kept_build
from pytest_attnmem.nulldevice.torch_build import TorchBuild, Version


@pytest.fixture
def done(tmp_path, monkeypatch):
    """Returns the list of what is done, in an environment with a CPU build."""
    done = []
    there = []
    kept = tmp_path / "cache" / "pytest-attnmem"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV", "/bin/uv")
    torch = TorchBuild("2.13.0+cu130", "13.0", kept / "torch", (), kept)

    def find():
        if not there:
            raise BackendUnavailable("there is none")
        return torch

    def keep(version, installer, show):
        show("fetching")
        done.append("keep")
        there.append(torch)

    version = Version("2.13.0+cpu", "", "abc")
    for module, name, stand_in in (
        (install.build, "refuse_elsewhere", lambda: None),
        (install.torch_build, "find_folder", lambda: tmp_path),
        (install.torch_build, "read_version", lambda folder: version),
        (install.torch_build, "find", find),
        (install.parts, "lacking", lambda torch: ["cudnn", "triton"]),
        (install.parts, "unplannable", lambda torch: ""),
        (install.parts, "requirements", lambda torch, part: [f"{part}==1"]),
        (install.installation, "add_headers", lambda *_: None),
        (install.installation, "keep", keep),
        (install.installation, "add", lambda torch, part, *_: done.append(f"add {part}")),
        (install.installation, "start_once", lambda: done.append("start")),
    ):
        monkeypatch.setattr(module, name, stand_in)
    return done


def test_the_build_is_kept_and_started_and_what_it_lacks_is_named(done, capsys):
    assert main(["install", "null"]) == 0
    assert done == ["keep", "start"]
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "attnmem install: fetching",
        "attnmem install: starting the null device once",
    ]
    lines = out.splitlines()
    assert lines[0].startswith("null measures here with torch 2.13.0+cu130 in ")
    assert lines[1:] == [
        "  without cudnn: no convolutions and attention by cuDNN;"
        " attnmem install null --with cudnn",
        "  without triton: no kernels of Triton's and torch.compile;"
        " attnmem install null --with triton",
        "try: pytest --attnmem-backend null:H100",
    ]


def test_a_build_that_is_there_is_not_fetched_again_and_parts_are_added_once(done):
    main(["install", "null"])
    done.clear()
    assert main(["install", "null", *("--with", "triton") * 2, "--with", "nvrtc"]) == 0
    assert done == ["add triton", "start"]


def test_a_dry_run_prints_the_commands_and_does_nothing(done, capsys, tmp_path):
    assert main(["install", "null", "--dry-run", "--with", "cudnn"]) == 0
    assert done == []
    kept = kept_build.folder("2.13.0")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (f"# needs 4.0 GiB of disk for a while, and keeps about 0.8 GiB in {kept}")
    assert lines[1].startswith("/bin/uv pip install --link-mode copy --index-strategy ")
    assert lines[1].endswith(f" --no-deps --target {kept} 'torch==2.13.0,!=2.13.0+cpu'")
    assert lines[2] == "# then cudnn, in the versions that this torch asks for"
    main(["install", "null"])
    capsys.readouterr()
    main(["install", "null", "--dry-run", "--with", "cudnn"])
    assert capsys.readouterr().out.endswith(" cudnn==1\n")
    main(["install", "null", "--dry-run"])
    assert capsys.readouterr().out == "# nothing: torch 2.13.0+cu130 is there\n"


def test_what_was_not_installed_is_not_removed(done, capsys):
    assert main(["install", "null", "--remove"]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"
    kept = kept_build.folder("2.13.0")
    kept.mkdir(parents=True)
    (kept / "file").write_bytes(bytes(5000))
    main(["install", "null", "--remove"])
    assert capsys.readouterr().out == f"removed {kept}, 8.0 KiB\n"


def test_a_folder_of_wheels_takes_the_place_of_the_network(done, tmp_path, capsys, refusal):
    main(["install", "null", "--dry-run", "--wheels", str(tmp_path)])
    assert f" --no-index --find-links {tmp_path} --no-deps" in capsys.readouterr().out
    missing = refusal("install", "null", "--wheels", "/no/such")
    assert missing == "--wheels: there is no folder '/no/such'"


def test_another_system_is_refused_in_one_line(monkeypatch, refusal):
    monkeypatch.setattr(install.build.sys, "platform", "darwin")
    other = refusal("install", "null")
    assert other == "the null device needs Linux, and this is darwin; use simulated"
