"""Which backend measures: ``--attnmem-backend``, and the marker's backend and device."""

import subprocess
import sys

import pytest
import torch

from pytest_attnmem.budgets.budget import Obstacle
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice import build

MARKED = """
import pytest
import torch

@pytest.mark.memory_budget({arguments})
def test_marked(): torch.ones(256)

def test_unmarked(): pass
"""


def test_by_default_a_device_that_is_here_is_measured(suite):
    suite.write(MARKED.format(arguments="'1 KiB'"))
    (row,) = suite.run().rows
    kind = torch.accelerator.current_accelerator(check_available=True)
    assert (row["backend"], row["device"]) == (
        ("cpu", "cpu") if kind is None else (row["backend"], f"{kind}:0")
    )


@pytest.mark.parametrize(
    "arguments",
    [
        "1024, backend='cpu', exact=True",
        "1024, device='cpu', exact=True",
        "1024, backend='cpu', device='cpu'",
    ],
)
def test_the_marker_chooses_over_the_option(scripted, arguments):
    scripted.write(MARKED.format(arguments=arguments))
    ran = scripted.run()
    assert ran.outcome("test_marked") == "within"
    assert ran.row("test_marked")["backend"] == "cpu"


def test_fixtures_measure_where_the_marker_does_and_two_metrics_where_each_says(scripted):
    ran = scripted.tests("""
import torch

@pytest.mark.memory_budget("1 KiB", backend="cpu")
def test_region(attnmem):
    with attnmem.region("part"):
        torch.ones(256)

@pytest.mark.memory_budget(2048, backend="cpu", exact=True)
@pytest.mark.memory_budget(7, metric="retained", exact=True)
def test_two():
    torch.ones(512)
    memory.take(7)
""").run()
    assert ran.outcomes == {"passed": 2}
    part = ran.row("test_region", "part")
    assert (part["backend"], part["peak_bytes"]) == ("cpu", 1024)
    assert ran.row("test_two")["backend"] == "cpu"
    assert ran.row("test_two", metric="retained")["backend"] == "scripted"


def test_a_backend_that_is_not_here_fails_each_marked_test_in_one_line(scripted):
    scripted.write(MARKED.format(arguments="10"))
    ran = scripted.run("--attnmem-backend=absent")
    assert ran.outcomes == {"errors": 1, "passed": 1}
    assert ran.report("ERROR at setup of test_marked") == [
        "backend 'absent' cannot measure here: nobody built one"
    ]
    assert ran.outcome("test_marked") == (
        "not enforced: backend 'absent' cannot measure here: nobody built one"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, so cuda can measure")
@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        ("backend='cuda'", "backend='simulated:H100'"),
        ("device='cuda'", "--attnmem-backend simulated:H100"),
        ("device='cuda:1'", "--attnmem-backend null:2xH100"),
        ("exact=False", ""),  # by the ini file
    ],
)
def test_cuda_on_a_machine_without_it_never_falls_back(suite, arguments, instead):
    if not instead:
        suite.ini["attnmem_backend"] = "cuda"
    suite.write(MARKED.format(arguments=f"10, {arguments}"))
    ran = suite.run()
    assert ran.outcomes == {"passed": 2}
    line = ran.outcome("test_marked")
    assert line.startswith("not enforced: backend 'cuda' cannot measure here: torch ")
    assert line.endswith(f"; {instead} measures without a GPU" if instead else "")
    ran = suite.run("--attnmem-strict=all")
    assert ran.report("test_marked")[:2] == [line, f"  {Obstacle.NO_DEVICE.remedy}"]


def test_an_argument_after_the_colon_is_passed_on(scripted):
    scripted.write(
        """
from pytest_attnmem.errors import BackendUnavailable

def refuse(argument): raise BackendUnavailable(f"no profile {argument!r}")

def pytest_attnmem_register_backends(): return {"mine": refuse}
""",
        "conftest.py",
    )
    scripted.write(MARKED.format(arguments="10"))
    ran = scripted.run("--attnmem-backend=mine:H100")
    assert ran.report("ERROR at setup of test_marked") == ["no profile 'H100'"]


def _refusal():
    try:
        build.build()
    except BackendUnavailable as error:
        return str(error)
    return ""


@pytest.mark.skipif(not _refusal(), reason="the null device can be had here")
@pytest.mark.parametrize("place", ["command line", "ini"])
def test_where_it_cannot_be_had_the_session_ends_in_one_line(tmp_path, place):
    tmp_path.joinpath("test_it.py").write_text("def test_it(): pass", "utf-8")
    ini = "attnmem_backend = null\n" if place == "ini" else ""
    tmp_path.joinpath("pytest.ini").write_text(f"[pytest]\n{ini}", "utf-8")
    option = [] if place == "ini" else ["--attnmem-backend=null:H100"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *option],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.strip() == f"ERROR: --attnmem-backend: {_refusal()}"


def test_a_session_that_is_called_with_arguments_cannot_start_again(suite):
    suite.write("def test_it(): pass")
    ran = suite.run("--attnmem-backend=null", json_file=None)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert ran.result.errlines[0].startswith(
        "ERROR: --attnmem-backend: pytest.main was called with arguments of its own"
    )
