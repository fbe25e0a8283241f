"""``attnmem run`` as far as it goes without a null device: what it starts, and what it refuses."""

import sys

import pytest
from suites import KNOWN_DEVICES

from pytest_attnmem.cli import make_parser
from pytest_attnmem.nulldevice import launch
from pytest_attnmem.profiles import PROFILES


@pytest.fixture
def reexecuted(monkeypatch, tmp_path):
    """Returns the list of programs and devices that the command would run."""
    seen = []
    monkeypatch.chdir(tmp_path)

    def reexec(*args):
        seen.append(args)
        raise SystemExit(0)

    monkeypatch.setattr(launch, "reexec", reexec)
    monkeypatch.setattr(sys, "executable", "python")
    tmp_path.joinpath("script.py").write_text("", "utf-8")
    tmp_path.joinpath("tool").write_text("#!/usr/bin/env python3\n", "utf-8")
    tmp_path.joinpath("binary").write_bytes(b"\x7fELF")
    return seen


def run(*words):
    """Runs the command without ``main``, which tells a SystemExit of a test as a user's error."""
    arguments = make_parser().parse_args(["run", *words])
    with pytest.raises(SystemExit):
        arguments.execute(arguments)


LIMIT = "1000000000000"
HOST = ["python", "-m", "pytest_attnmem.backends.null.program"]


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (["--", "script.py", "--json", "x"], ["", LIMIT, "script.py", "--json", "x"]),
        (["script.py", "-m", "x"], ["", LIMIT, "script.py", "-m", "x"]),
        (["--", "python3.11", "script.py"], ["", LIMIT, "script.py"]),
        (["--", "-m", "module", "-x"], ["", LIMIT, "-m", "module", "-x"]),
        (["--", "python", "-m", "module"], ["", LIMIT, "-m", "module"]),
        (["--", "python3", "-c", "f()", "-x"], ["", LIMIT, "-c", "f()", "-x"]),
        (["--", "./tool", "a b", ""], ["", LIMIT, "./tool", "a b", ""]),
    ],
)
def test_a_python_program_is_run_by_this_python(reexecuted, arguments, program):
    run("--device", "2xH100", *arguments)
    assert reexecuted == [(HOST + program, (PROFILES["H100"], 2))]


def test_the_file_for_the_peaks_is_where_the_command_was_given(reexecuted, tmp_path):
    run("--json", "peaks.json", "--", "script.py")
    assert reexecuted == [
        ([*HOST, str(tmp_path / "peaks.json"), LIMIT, "script.py"], (PROFILES["A100-80GB"], 1))
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a program: attnmem run --device H100 -- script.py arguments"),
        (["--"], "give a program: attnmem run --device H100 -- script.py arguments"),
        (["--", "python"], "give a program: attnmem run --device H100 -- script.py arguments"),
        (["--", "-c"], "expected script.py, -m module or -c code, got '-c'"),
        (["--", "-m"], "expected script.py, -m module or -c code, got '-m'"),
        (["--", "missing.py"], "there is no program 'missing.py'"),
        (["--", "."], "'.' is not a Python program; give script.py or -m module"),
        (["--", "./binary"], "'./binary' is not a Python program; give script.py or -m module"),
        (["--device", "GTX 9", "--", "script.py"], f"unknown device 'GTX 9'; {KNOWN_DEVICES}"),
        (
            ["--json", "no/peaks.json", "--", "script.py"],
            "--json: there is no directory {here}/no; create it first",
        ),
        (["--json", ".", "--", "script.py"], "--json: {here} is a directory; name a file in it"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(reexecuted, refusal, tmp_path, arguments, message):
    assert refusal("run", *arguments) == message.replace("{here}", str(tmp_path))
    assert reexecuted == []
