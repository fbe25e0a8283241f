"""One rule of devices: who names one places tensors; a program that names none is on it."""

import contextlib

import pytest
import torch
from placements import NEEDED

from pytest_attnmem import measure
from pytest_attnmem.backends.primed_backend import open_primed

pytestmark = pytest.mark.usefixtures("simulation_imported")


@pytest.mark.parametrize("program", NEEDED, ids=lambda program: program.__name__)
def test_what_a_program_puts_on_the_host_counts_nothing(program):
    seen = measure(program, backend="simulated:A100-80GB")
    assert (seen.unmeasured, seen.peak_bytes, seen.retained_bytes) == (None, *NEEDED[program])


def goes_on():
    table = torch.ones(4)
    with contextlib.suppress(BaseException):
        table.to("cuda")


def test_a_program_that_goes_on_after_it_named_the_device_runs_again():
    seen = measure(goes_on, backend="simulated")
    assert (seen.unmeasured, seen.peak_bytes) == (None, 16)


def test_a_region_that_goes_on_after_it_named_the_device_is_not_measured():
    with open_primed("simulated").window() as region:
        goes_on()
    assert region.measurement.unmeasured == (
        f"'cuda' is named at test_12_placement.py:{goes_on.__code__.co_firstlineno + 3}, after"
        " tensors were made without a device, and this run cannot start again; name the device of"
        " each tensor"
    )


MARKED = """
import sys, unittest

runs = []

@pytest.mark.memory_budget("O(N^2)")
@pytest.mark.parametrize("N", [256])
def test_contract(N):
    torch.ones(N, N).half().to("cuda")

@pytest.mark.memory_budget(8192, exact=True)
def test_once_more(attnmem):
    runs.append(1)
    with attnmem.region("first", "1 MiB"):
        table = torch.ones(16, 256).half()
    with attnmem.region("second", 8192, exact=True):
        table.to("cuda")

def test_runs():
    assert runs == [1], "its code names the device"

@pytest.mark.memory_budget(1024, exact=True)
class TestCase(unittest.TestCase):
    def test_it(self):
        torch.ones(256).to("cuda")

@pytest.mark.memory_budget(8192, warmup=1, exact=True)
def test_warm():
    torch.ones(16, 256).half().to("cuda")

@pytest.mark.memory_budget("1 MiB")
def test_swallowed():
    table = torch.ones(4)
    try:
        table.to("cuda")
    except BaseException:
        pass

@pytest.mark.memory_budget(8192, exact=True)
def test_measured_inside(attnmem):
    table = torch.ones(16, 256)
    attnmem.measure(lambda: table.half().to("cuda"))

@pytest.mark.memory_budget(4096, exact=True)
def test_nothing_named(qkv):
    q, _, _ = qkv(1, 1, 32, 32)
    q + torch.ones(32, 32).mul_(2) if False else q + 1

@pytest.mark.memory_budget("1 MiB")
def test_placed_like_an_input(qkv):
    q, _, _ = qkv(1, 1, 32, 32)
    torch.ones(1024, 1024)
    torch.ones(4, device=q.device)

@pytest.mark.memory_budget("1 MiB")
def test_that_imports():
    table = torch.ones(4)
    sys.modules["torch.first_import_of_this"] = torch
    assert table.is_cpu

@pytest.mark.memory_budget("1 MiB")
def test_mixed():
    torch.ones(4, device="cuda") + torch.ones(4)
"""


def test_a_run_that_turns_out_to_place_its_tensors_starts_again(suite):
    ran = suite.tests(MARKED).run("--attnmem-strict=off", "--attnmem-backend=simulated")
    assert {
        f"{row['nodeid'].partition('::')[2]} {row['region']}".rstrip(): row["peak_bytes"]
        for row in ran.rows
        if row["outcome"] == "within"
    } == {
        "test_contract[256]": 131072,
        "test_once_more": 8192,
        "test_once_more second": 8192,
        "TestCase::test_it": 1024,
        "test_warm": 8192,
        "test_swallowed": 16,
        "test_measured_inside": 8192,
        "test_nothing_named": 4096,
        "test_placed_like_an_input": 16,
    }
    assert ran.outcome("test_mixed") == "not enforced: the test failed: RuntimeError"
    assert ran.outcomes == {"passed": 10, "failed": 1}


ON_THE_DEVICE = """
import numpy
from torch import nn

def hooked():
    x = torch.ones(4, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: kept.append(torch.ones(4096)) or t, lambda t: t
    ):
        return x * x, kept

@torch.jit.script
def scripted(n: int):
    return torch.ones(n)

CASES = {
    "factory": (lambda: torch.ones(4096), 16384),
    "hook": (hooked, 2 * 16384 + 2 * 16),
    "parameter": (lambda: nn.Parameter(torch.Tensor(4096)), 16384),
    "numpy": (lambda: torch.from_numpy(numpy.ones(4, numpy.float32)) * torch.ones(4), 48),
    "tensor": (lambda: torch.tensor([1.0, 2.0]) * torch.ones(2), 24),
    "array": (lambda: numpy.asarray(torch.ones(4096) * 2).sum().item() / 8192, 2 * 16384),
}
UNSEEN = {
    "script": lambda: scripted(4096),
    "legacy data": lambda: torch.Tensor([1.0] * 4096) * torch.randn(4096),
    "legacy type": lambda: torch.FloatTensor([1.0, 2.0]) * torch.randn(2),
}

@pytest.mark.memory_budget("1 MiB")
@pytest.mark.parametrize("case", CASES)
def test_it(case):
    CASES[case][0]()

@pytest.mark.parametrize("case", CASES)
def test_bytes(case, attnmem):
    seen = attnmem.measure(CASES[case][0])
    assert (seen.unmeasured, seen.peak_bytes) == (None, CASES[case][1])

@pytest.mark.parametrize("case", UNSEEN)
def test_unseen(case, attnmem):
    assert "on the host" in attnmem.measure(UNSEEN[case]).unmeasured
"""


def test_a_program_that_names_no_device_is_on_it_as_a_whole(suite):
    ran = suite.tests(ON_THE_DEVICE).run("--attnmem-strict=off", "--attnmem-backend=simulated")
    assert ran.outcomes["passed"] == 2 * 6 + 3


LIKE_A_FIXTURE = """
from torch import nn

@pytest.fixture
def x():
    return torch.ones(4)

@pytest.fixture(scope="module")
def of_module():
    return torch.ones(4)

@pytest.fixture(scope="session")
def of_session():
    return torch.ones(4)

@pytest.fixture
def model():
    return nn.Linear(4, 4)

def block(x):
    with x.device:
        return torch.zeros(4)

def default(x):
    torch.set_default_device(x.device)
    try:
        return torch.zeros(4)
    finally:
        torch.set_default_device(None)

def generator(x):
    made = torch.Generator(x.device).manual_seed(0)
    return torch.randn(4, generator=made, device=x.device)

def read(x, *, tmp_path=None):
    torch.save(torch.zeros(4), tmp_path / "file")
    return torch.load(tmp_path / "file", map_location=x.device)

def read_as_saved(x, *, tmp_path=None):
    torch.save(x, tmp_path / "file")
    return torch.load(tmp_path / "file")

CASES = {
    "factory": lambda x: torch.zeros(4, device=x.device),
    "device": lambda x: torch.zeros(4, device=torch.device(x.device)),
    "data": lambda x: torch.tensor([0.0] * 4, device=x.device),
    "layer": lambda x: nn.Linear(1, 3, device=x.device).weight.new_zeros(4),
    "generator": generator, "block": block, "default": default,
}
STAYING = {
    "device": lambda x, a: a.to(x.device),
    "tensor": lambda x, a: a.to(x),
    "back": lambda x, a: x.to(a.device),
}

def test_cases(attnmem, x, of_module, of_session):
    for near in (x, of_module, of_session):
        for case, run in CASES.items():
            seen = attnmem.measure(lambda: torch.ones(4) + run(near))
            assert (seen.unmeasured, seen.peak_bytes) == (None, 48), case

def test_moves(attnmem, x):
    for case, move in STAYING.items():
        seen = attnmem.measure(lambda: move(x, torch.ones(4)))
        assert (seen.unmeasured, seen.peak_bytes) == (None, 16), case

@pytest.mark.parametrize("case", [read, read_as_saved])
def test_files(attnmem, x, tmp_path, case):
    seen = attnmem.measure(lambda: torch.ones(4) + case(x, tmp_path=tmp_path))
    assert (seen.unmeasured, seen.peak_bytes) == (None, 48)

def test_module(attnmem, model, x):
    seen = attnmem.measure(lambda: model.to(x.device).to(x)(torch.ones(4)))
    assert (seen.unmeasured, seen.peak_bytes) == (None, 32)
    seen = attnmem.measure(lambda: torch.ones(4, device=next(model.parameters()).device))
    assert (seen.unmeasured, seen.peak_bytes) == (None, 16)

@pytest.mark.memory_budget(32, exact=True)
def test_own():
    a = torch.ones(4)
    nn.ReLU().to(a.device)(a)
"""


def test_the_device_of_a_tensor_made_before_the_window_is_named_by_nobody(suite):
    ran = suite.tests(LIKE_A_FIXTURE).run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 6}
    assert ran.outcome("test_own") == "within"


FAILING = """
import unittest
from torch.nn.utils.rnn import pack_padded_sequence

def packed():
    pack_padded_sequence(torch.ones(2, 3), torch.tensor([3, 2]), batch_first=True)

@pytest.mark.memory_budget("1 MiB")
def test_lengths():
    packed()

@pytest.mark.memory_budget("1 MiB")
class TestCase(unittest.TestCase):
    def test_case(self):
        packed()

    def test_parts(self):
        for part in range(2):
            with self.subTest(part=part):
                packed()

def test_measured(attnmem):
    assert attnmem.measure(packed).peak_bytes == 0

@pytest.mark.memory_budget("1 MiB", warmup=1)
def test_warm():
    packed()

@pytest.mark.memory_budget("1 MiB")
def test_wrong():
    assert torch.ones(3).sum() == 4

@pytest.mark.memory_budget("1 MiB")
def test_named():
    assert torch.ones(3, device="cuda").sum() == 4
"""


def test_an_error_on_the_device_of_nobodys_choice_runs_the_body_again_on_the_host(suite):
    ran = suite.tests(FAILING).run("--attnmem-strict=off", "--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 5, "failed": 2}
    passed = ("test_lengths", "TestCase::test_case")
    assert {ran.outcome(name) for name in passed} == {
        "not enforced: nothing was allocated: it ended with RuntimeError: 'lengths' argument should"
        " be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor, and its tensors were on"
        " the device, though it named none"
    }
    assert ran.outcome("test_warm") == "not enforced: nothing was allocated"
    twice = (
        "the body ran twice: it ended with AssertionError: assert tensor(3., device='cuda:0') == 4"
    )
    assert ran.text.count(twice) == 1, ran.text
