"""A backend, a device or torch that is not there is refused once, in one line, at the start."""

import json
import subprocess
import sys

import pytest
import torch
from suites import KNOWN_DEVICES, Suite

SUITE = """
@pytest.mark.memory_budget("1 KiB")
def test_one(): pass

@pytest.mark.memory_budget("1 KiB")
def test_two(): pass
"""
UNKNOWN = "unknown backend {!r}; expected one of auto, cuda, accelerator, null, cpu, simulated"
XDIST = pytest.mark.parametrize(
    "xdist", [(), pytest.param(("-n1",), marks=pytest.mark.thorough)], ids=["here", "xdist"]
)
without_gpu = pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a device here")


def refusal(suite: Suite, *arguments: str) -> str:
    ran = suite.tests(SUITE).run(*arguments, shown=())
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert "test_one" not in ran.text
    (line,) = filter(None, ran.result.errlines)
    return line


@XDIST
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("simulated:H1000", f"unknown device 'H1000'; did you mean H100? {KNOWN_DEVICES}"),
        ("simulate:H100", f"{UNKNOWN.format('simulate:H100')}; did you mean 'simulated'?"),
        ("x", UNKNOWN.format("x")),
    ],
)
def test_an_unknown_device_or_backend(suite, name, said, xdist):
    line = f"ERROR: --attnmem-backend: {said}"
    assert refusal(suite, f"--attnmem-backend={name}", *xdist) == line


def test_an_unknown_device_to_simulate_in_the_ini_file(suite):
    suite.ini["attnmem_backend"] = "simulated:A100"
    assert refusal(suite) == (
        f"ERROR: attnmem_backend: unknown device 'A100'; did you mean A100-40GB or A100-80GB?"
        f" {KNOWN_DEVICES}"
    )


@without_gpu
@XDIST
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cuda:1", f"backend 'cuda' cannot measure here: torch {torch.__version__} was built"),
        ("accelerator", "backend 'accelerator' cannot measure here: torch sees no accelerator;"),
    ],
)
def test_a_device_that_is_not_there(suite, name, why, xdist):
    line = refusal(suite, f"--attnmem-backend={name}", *xdist)
    assert line.startswith(f"ERROR: --attnmem-backend: {why}")
    assert line.endswith("; simulated:H100 measures without a GPU")


@without_gpu
@pytest.mark.parametrize("option", ["--collect-only", "--attnmem-disable"])
def test_a_device_is_not_missed_where_nothing_is_measured(suite, option):
    ran = suite.tests(SUITE).run("--attnmem-backend=cuda", option, shown=())
    assert ran.result.ret == pytest.ExitCode.OK


SIZES = ["--B", "1", "--H", "1", "--d", "64"]
COMMANDS = {
    "predict": ["predict", "flash", "--N", "64", *SIZES],
    "max-length": ["max-length", "flash", *SIZES],
    "derive": ["derive", "json:dumps", "B N d"],
    "sweep": ["sweep", "--simulate"],
    "sweep on cuda": ["sweep", "--device", "cuda"],
}
#: Run in a process of its own: here, torch is imported.
PROGRAM = """
import contextlib, io, json, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from pytest_attnmem.cli import main

ran = {}
for name, arguments in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stderr(io.StringIO()) as told:
        code = main(arguments)
    ran[name] = (code, told.getvalue())
print(json.dumps(ran))
"""


def test_each_command_that_needs_torch_says_so_in_one_line():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(COMMANDS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    line = "attnmem {}: needs torch, which is not installed; pip install torch\n"
    assert json.loads(done.stdout) == {
        name: [2, line.format(command)] for name, (command, *_) in COMMANDS.items()
    }
