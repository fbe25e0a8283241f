"""Which backend measures: ``--attnmem-backend``, and the marker's backend and device."""

import pytest
import torch

from pytest_attnmem.budgets.obstacle import Obstacle

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


def test_the_fixtures_measure_where_the_marker_does(scripted):
    scripted.write("""
import pytest
import torch

@pytest.mark.memory_budget("1 KiB", backend="cpu")
def test_it(attnmem):
    with attnmem.region("part"):
        torch.ones(256)
""")
    ran = scripted.run()
    assert ran.row("test_it", "part")["backend"] == "cpu"
    assert ran.row("test_it", "part")["peak_bytes"] == 1024


def test_two_metrics_can_be_measured_by_two_backends(scripted):
    scripted.write("""
import pytest
import torch
from scripted import memory

@pytest.mark.memory_budget(2048, backend="cpu", exact=True)
@pytest.mark.memory_budget(7, metric="retained", exact=True)
def test_it():
    torch.ones(512)
    memory.take(7)
""")
    ran = scripted.run()
    assert ran.outcomes == {"passed": 1}
    assert ran.row("test_it")["backend"] == "cpu"
    assert ran.row("test_it", metric="retained")["backend"] == "scripted"


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


def test_a_marker_that_asks_for_a_backend_that_is_not_here_says_where_it_is(scripted):
    scripted.write(MARKED.format(arguments="10, backend='absent'"))
    ran = scripted.run()
    assert ran.outcomes == {"errors": 1, "passed": 1}
    assert ran.report("ERROR at setup of test_marked") == [
        "memory_budget: backend 'absent' cannot measure here: nobody built one   test_suite.py:5"
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, so cuda can measure")
@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        ("backend='cuda'", "backend='simulated:H100'"),
        ("device='cuda'", "--attnmem-backend simulated:H100"),
        ("device='cuda:1'", "--attnmem-backend null:2xH100"),
    ],
)
def test_cuda_on_a_machine_without_it_never_falls_back(suite, arguments, instead):
    suite.write(MARKED.format(arguments=f"10, {arguments}"))
    ran = suite.run()
    assert ran.outcomes == {"passed": 2}
    line = ran.outcome("test_marked")
    assert line.startswith("not enforced: backend 'cuda' cannot measure here: torch ")
    assert line.endswith(f"; {instead} measures without a GPU")
    ran = suite.run("--attnmem-strict=all")
    assert ran.report("test_marked")[:2] == [line, f"  {Obstacle.NO_DEVICE.remedy}"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, so cuda can measure")
def test_cuda_in_the_ini_file_on_a_machine_without_it_never_falls_back(suite):
    suite.write(MARKED.format(arguments="10"))
    suite.ini["attnmem_backend"] = "cuda"
    ran = suite.run()
    assert ran.outcomes == {"passed": 2}
    found = "not enforced: backend 'cuda' cannot measure here: torch "
    assert ran.outcome("test_marked").startswith(found)
    assert suite.run("--attnmem-strict=all").outcomes == {"failed": 1, "passed": 1}


def test_a_cpu_has_no_number(suite):
    suite.write(MARKED.format(arguments="10, backend='cpu:1'"))
    ran = suite.run()
    assert ran.report("ERROR at setup of test_marked") == [
        "memory_budget: backend 'cpu' takes no device number, got '1'   test_suite.py:5"
    ]


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
