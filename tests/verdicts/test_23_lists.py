"""Lists of held tensors show the cause first, and the end of a session the reasons."""

import json

import pytest

from .gpt import GPT

STEP = """
import pytest
import torch
from blocks import GPT

@pytest.mark.memory_budget("1 KiB")
@pytest.mark.parametrize("N", [64])
def test_step(N):
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.zeros(3, N, dtype=torch.long)).sum().backward()
        optimizer.step()
"""


def listed(ran, test):
    lines = ran.report(test)
    start = next(n for n, line in enumerate(lines) if line.startswith("  held at"))
    return lines[start:]


@pytest.mark.parametrize(
    ("backend", "optimizer"),
    [
        ("cpu", "99.1 KiB made by the optimizer: 42 tensors"),
        pytest.param(  # it counts on the CPU
            *("simulated:H100", "99.0 KiB made by the optimizer: 28 tensors"),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_equal_tensors_are_one_line_and_so_are_parameters(suite, backend, optimizer):
    suite.write(GPT, "blocks.py")
    suite.write(STEP)
    lines = listed(suite.run(f"--attnmem-backend={backend}"), "test_step[64]")
    told = {" ".join(line.split()) for line in lines}
    assert (
        "2 × 192.0 KiB [3, 4, 64, 64] float32 softmax blocks.py:29 in forward"
        " saved by blocks.*.attention ← 3·4·N·N"
    ) in told
    assert {
        "49.5 KiB parameters: 14 tensors",
        "49.5 KiB gradients of parameters: 14 tensors",
        optimizer,
    } <= told


def test_a_marker_and_a_region_that_fail_at_once_list_tensors_once(suite):
    ran = suite.tests("""
@pytest.mark.memory_budget("1 KiB")
def test_it(attnmem):
    with attnmem.region("all", "1 KiB"):
        torch.empty(4096)
""").run("--attnmem-backend=cpu", shown=())
    assert [line for line in ran.report("test_it") if "held at" in line or "[4096]" in line] == [
        "E         held at the peak (1 tensor):",
        "E           16.0 KiB  [4096] float32  empty  test_suite.py:7  in test_it",
    ]
    assert ran.report("test_it")[-3:] == [
        "peak 16.0 KiB exceeds budget 1.0 KiB (16.0x) on cpu",
        "  budget    1 KiB   test_suite.py:4",
        "  attnmem explain temporaries",
    ]


def test_a_model_that_other_tests_share_is_told_as_the_first_run_has_it(suite):
    """The second run finds gradients that the first one made."""
    ran = suite.tests("""
@pytest.fixture(scope="session")
def model():
    return torch.nn.Linear(64, 64, bias=False)

@pytest.mark.memory_budget("1 KiB")
def test_step(model):
    model(torch.ones(4, 64)).sum().backward()
""").run("--attnmem-backend=simulated:H100")
    held = ran.row("test_step")["held"]
    assert sum(one["bytes"] for one in held) == ran.row("test_step")["peak_bytes"]


def test_a_megabyte_of_gigabytes_is_readable(scripted):
    scripted.tests("""
@pytest.mark.memory_budget
def test_it():
    memory.use(8740929536)
""")
    line = {"test": "test_suite.py::test_it", "metric": "peak", "on": "scripted"}
    entries = [{**line, "bytes": 8724152320}]
    scripted.write(json.dumps({"schema": 1, "entries": entries}), "attnmem-baseline.json")
    assert scripted.run().report("test_it")[0] == (
        "peak 8,740,929,536 B is 16.0 MiB over its baseline 8,724,152,320 B (+0.2%) on scripted  "
        " attnmem-baseline.json"
    )


def test_a_library_s_optimizer_has_lines_of_its_own(suite):
    suite.write(
        """
import torch

class Doubling(torch.optim.Optimizer):
    def __init__(self, weights):
        super().__init__(weights, {})

    @torch.no_grad()
    def step(self):
        (group,) = self.param_groups
        updates = torch._foreach_mul([one.grad for one in group["params"]], 2)
        torch._foreach_sub_(group["params"], updates)
""",
        "site-packages/doubling.py",
    )
    suite.write("""
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent / "site-packages"))

@pytest.fixture
def weights():
    weights = [torch.nn.Parameter(torch.ones(16, 16)) for _ in range(4)]
    for weight in weights:
        weight.grad = torch.ones(16, 16)
    return weights

@pytest.mark.memory_budget("1 KiB")
def test_step(weights):
    from doubling import Doubling
    Doubling(weights).step()
""")
    lines = listed(suite.run("--attnmem-backend=cpu"), "test_step")
    assert " ".join(lines[1].split()) == (
        "4 × 1.0 KiB [16, 16] float32 foreach_mul test_suite.py:20, by doubling.py:11 in test_step"
    )
    assert lines[-1] == "  attnmem explain temporaries"


REASONS = """
@pytest.mark.parametrize("n", range(2))
@pytest.mark.memory_budget(10)
def test_nothing(n): pass

@pytest.mark.memory_budget
def test_bare(): memory.use(1)

@pytest.mark.memory_budget(10, metric="reserved")
def test_unmeasured(): memory.use(1)

@pytest.mark.skip(reason="no GPU")
@pytest.mark.memory_budget(10)
def test_skipped(): pass

@pytest.mark.memory_budget({"cuda": 1})
def test_elsewhere(): memory.use(1)
"""


def test_reasons_are_told_without_another_run_the_most_frequent_first(scripted):
    scripted.tests(REASONS)
    lines = scripted.run().result.outlines
    start = next(i for i, line in enumerate(lines) if line.startswith("attnmem: "))
    assert lines[start : start + 6] == [
        "attnmem: 6 budgets, 0 within, 0 over, 6 not enforced (--attnmem-report for the table)",
        "  2 not enforced: nothing was allocated",
        "  1 not enforced: no baseline entry; --attnmem-update new writes one",
        "  1 not enforced: no limit for scripted, only for cuda",
        "  1 not enforced: skipped: no GPU",
        "  1 not enforced: reserved is not measured on scripted",
    ]


def test_the_table_has_each_of_them_and_they_are_not_told_twice(scripted):
    ran = scripted.tests(REASONS).run("--attnmem-report")
    assert not any(line.startswith("  2 not enforced") for line in ran.result.outlines)


def test_a_disabled_session_says_so_at_its_end(scripted):
    ran = scripted.tests(REASONS).run("--attnmem-disable", "-q")
    assert "attnmem: disabled, budgets are not enforced" in ran.result.outlines
