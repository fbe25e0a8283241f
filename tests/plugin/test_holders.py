"""The failure names who holds the tensors: at the end, and at the peak."""

import pytest

from pytest_attnmem.measurement.protocol import SearchTime

HOLDERS = """
import pytest, torch

class Loop:
    def __init__(self):
        self.outputs = []

    def step(self, x):
        y = x * 2
        self.outputs.append(y.relu())
        return (y + 1).sum()

def make(x):
    return x - 1

def run(loop, device):
    x, made = torch.ones(64, 64, device=device), {}
    for place in range(3):
        loop.step(x)
        made[place] = make(x)

@pytest.fixture
def loop():
    return Loop()

@pytest.mark.memory_budget("32 KiB")
def test_peak(attnmem):
    run(Loop(), attnmem.device)

@pytest.mark.memory_budget("16 KiB", metric="retained")
def test_retained(attnmem, loop):
    loop.outputs.clear()
    run(loop, attnmem.device)

def test_region(attnmem):
    with attnmem.region("steps", "1 KiB"):
        run(Loop(), attnmem.device)
"""


@pytest.fixture(autouse=True)
def _enough_time(monkeypatch):
    """On a busy machine, a search gets less done in its time."""
    monkeypatch.setattr(SearchTime.__init__, "__defaults__", (60.0, 0.0))


@pytest.mark.parametrize("backend", ["cpu", "simulated:H100"])
def test_who_holds(suite, backend):
    suite.write(HOLDERS)
    ran = suite.run("--attnmem-backend", backend)
    outputs = [f"Loop.outputs[{place}]" for place in range(3)]
    for test, count in (("test_peak", 2), ("test_retained", 1), ("test_region", 2)):
        text = "\n".join(ran.report(test))
        assert f"held by {', '.join(outputs)}" in text
        assert ("held by the local made[0] of run, the local made[1] of run" in text) is (count > 1)
        assert text.count("held by") == count
    for row in ran.rows:
        assert {*outputs} <= {one.get("holder", "") for one in row["held"]}


def test_who_holds_what_a_call_left(suite):
    ran = suite.tests("""
import random

KEPT = []
fresh = random.Random(0)
NUMBERS = [fresh.random(), fresh.random()]

def call(n):
    KEPT.append((random.random(), torch.ones(n)))
    return {"past": [torch.zeros(n), torch.empty(0)]}

def test_call(attnmem):
    random.seed(0)
    try:
        attnmem.check(attnmem.measure(call, 1024), "1 KiB", metric="retained")
    finally:
        assert len(KEPT) == 1
        assert [KEPT[0][0], random.random()] == NUMBERS
""").run("--attnmem-backend=cpu")
    assert "held by test_suite.KEPT[1][1]" in ran.text
    assert 'held by Measurement.result["past"][0]' in ran.text
    assert "AssertionError" not in ran.text


FIRST_USE = """
import functools
import pytest, torch

class Tables:
    @functools.cached_property
    def rows(self): return torch.ones(512)

TABLES, OTHERS, STEPS = Tables(), Tables(), []

@pytest.mark.memory_budget(0, metric="retained")
def test_lazy(): TABLES.rows

@pytest.mark.memory_budget(0, metric="retained")
def test_list(): STEPS.append(torch.ones(512))

@pytest.mark.memory_budget(0, metric="retained")
def test_cycle():
    cycle = [torch.ones(512)]
    cycle.append(cycle)

@pytest.mark.memory_budget("1 KiB")
def test_peak(): OTHERS.rows + torch.ones(512)
"""


def test_what_the_first_run_alone_makes_is_named(suite):
    suite.write(FIRST_USE)
    ran = suite.run("--attnmem-backend=cpu")
    for test, holder in (
        ("test_lazy", "held by Tables.rows"),
        ("test_list", "held by test_suite.STEPS[0]"),
        ("test_cycle", "held by a cycle that only a garbage collection frees"),
        (
            "test_peak",
            "and 2.0 KiB that the second run did not account for: 2.0 KiB of them are filled once,"
            " as a cache is; warmup=1 leaves them out",
        ),
    ):
        assert holder in "\n".join(ran.report(test))


SUITE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        y = self.up(x)
        return self.down(torch.relu(y){extra})

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

def test_step(attnmem):
    step = attnmem.model(Model, inputs=["float[B,8]"], B=64, train="adamw")
    attnmem.check(step)
    attnmem.check(step.part("blocks.*", "saved for backward"), name="saved")
"""
OPTIONS = ("--attnmem-backend", "simulated:H100")


def test_a_model_without_a_limit_is_held_to_its_entry_and_says_what_grew(suite):
    suite.write(SUITE.replace("{extra}", ""))
    strict = suite.run(*OPTIONS, "--attnmem-strict=all")
    assert "check: not enforced: no baseline entry; --attnmem-update new writes one" in strict.text
    assert suite.run(*OPTIONS, "--attnmem-update=all").outcomes == {"passed": 1}
    assert "baseline: 2 same" in suite.run(*OPTIONS).text
    saved = 3 * 64 * 32 * 4  # of each block, the output of relu
    baseline = (suite.path / "attnmem-baseline.json").read_text("utf-8")
    assert baseline.count(f'"saved for backward of blocks.*": {saved}') == 2
    suite.write(SUITE.replace("{extra}", " * y.sigmoid()"))
    grown = suite.run(*OPTIONS)
    assert grown.outcomes == {"failed": 1}
    (line,) = [line for line in grown.text.splitlines() if "  grew  " in line]
    # Each block saves sigmoid's output and the product too; the last product is free by then.
    assert line.split("grew")[1].strip() == (
        "+40.0 KiB saved for backward of blocks.*; +8.0 KiB temporary of blocks.*"
    )
    assert any(line.endswith("saved by blocks.*") for line in grown.text.splitlines())
