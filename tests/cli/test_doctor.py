"""``attnmem doctor``."""

from pathlib import Path

import pytest

from pytest_attnmem import __version__
from pytest_attnmem.cli import doctor, main
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice import build


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return tmp_path


def test_what_works_comes_first_and_then_why_others_do_not(home, monkeypatch, capsys):
    def refuse(name):
        if name != "cpu":
            raise BackendUnavailable(f"backend {name!r} cannot measure here: no {name}")

    def refuse_null():
        raise BackendUnavailable("the null device needs a C compiler: found none of cc")

    monkeypatch.setattr(doctor, "open_backend", refuse)
    monkeypatch.setattr(build, "check", refuse_null)
    folder = home / ".cache" / "pytest-attnmem" / "nulldevice" / "key"
    folder.mkdir(parents=True)
    folder.joinpath("libcuda.so.1").write_bytes(bytes(2048))
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:8] == [
        f"attnmem {__version__} measures here with cpu",
        "",
        "backends",
        "  cuda         no   no cuda",
        "  accelerator  no   no accelerator",
        "  null         no   the null device needs a C compiler: found none of cc",
        "  cpu          yes",
        "  simulated    no   no simulated",
    ]
    assert any(line.startswith("  torch ") and line.endswith("rules are known") for line in lines)
    assert "  null runtime          ~/.cache/pytest-attnmem/nulldevice  2.0 KiB" in lines
    assert doctor.shown_path(Path("/opt/a")) == "/opt/a"
    codes = [main(["doctor", "--backend", name]) for name in ("cpu", "auto", "null:H100")]
    assert codes == [0, 0, 1]


def test_a_machine_without_torch_has_no_backend(home, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "torch" else "1.0")
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"attnmem {__version__} cannot measure here"
    assert lines[3] == "  cuda         no   torch is not installed; pip install torch"
    assert "  torch                 not installed" in lines
    assert "  null runtime          ~/.cache/pytest-attnmem/nulldevice  not made yet" in lines
    assert lines[-5:] == [
        "",
        "next",
        "  pip install torch            tests are measured where torch is",
        "  attnmem init                 suggest a budget for each of your ten largest tests, as a"
        " diff",
        "  pytest --attnmem-update all  record every test; from then on one byte more fails",
    ]


@pytest.mark.parametrize(
    ("working", "platform", "command"),
    [
        (["cuda", "cpu"], "linux", "pytest --attnmem-report"),
        (["null", "cpu"], "linux", "pytest --attnmem-backend null:H100"),
        (["cpu"], "linux", "attnmem install null"),
        (["cpu", "simulated"], "darwin", "pytest --attnmem-backend simulated:H100"),
    ],
)
def test_the_next_step_is_that_of_the_machine(working, platform, command, monkeypatch):
    monkeypatch.setattr(doctor.sys, "platform", platform)
    backends = {
        name: "" if name in working else "no" for name in ("cuda", "null", "cpu", "simulated")
    }
    found = doctor.Findings(dict.fromkeys(doctor._PACKAGES, "1.0"), "", backends)
    heading, *lines = doctor.render(found)[-4:]
    assert heading == "next"
    steps = [line.split("  ")[1] for line in lines]
    assert steps == [command, "attnmem init", "pytest --attnmem-update all"]


def test_json_has_the_same_and_nothing_is_compiled(home, monkeypatch, printed_json):
    monkeypatch.setattr(build, "_make", lambda *_: pytest.fail("it was compiled"))
    found = printed_json("doctor", "--json")
    assert found["backends"]["cpu"] == {"works": True, "reason": None}
    assert found["packages"]["pytest"] == pytest.__version__
    assert not (home / ".cache").exists()


def test_an_unknown_backend_is_one_line(refusal):
    assert refusal("doctor", "--backend", "cudda") == (
        "unknown backend 'cudda'; expected one of auto, cuda, accelerator, null, cpu, simulated;"
        " did you mean 'cuda'?"
    )
