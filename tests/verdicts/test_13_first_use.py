"""Imports of torch on first use pin tensors for a while; ``retained`` does not count these."""

import sys

import pytest

#: The start of a suite whose tests use a lazy module.
STEP = """
import pytest, torch

def lazily():
    # As torch does on first use: import, and leave the frames of a failed import in a cycle.
    import attnmem_lazy

def step():
    tensor = torch.ones(1024)
    lazily()

retained = pytest.mark.memory_budget(0, metric="retained")
"""

#: Stands for torch._dynamo, whose import takes seconds and happens once in a process.
LAZY = """
import sys

def pin():
    try: raise ImportError
    except ImportError as error: caught = error  # whose frames hold it, and all that called

pin()
sys.modules[f"torch.attnmem_lazy_{len(sys.modules)}"] = sys.modules[__name__]
"""


@pytest.fixture
def lazy(suite):
    """A suite with a module that pins the frames that import it, and is torch's."""
    suite.write(LAZY, "attnmem_lazy.py")
    suite.head = STEP
    yield suite
    for name in [name for name in sys.modules if name.startswith("torch.attnmem_lazy_")]:
        del sys.modules[name]


def test_the_first_test_that_uses_a_lazy_module_is_judged_as_the_second(lazy):
    ran = lazy.tests("""
@retained
def test_first(): step()

@retained
def test_second(): step()
""").run()
    assert ran.outcomes == {"passed": 2}
    for test in ("test_first", "test_second"):
        row = ran.row(test, metric="retained")
        assert (row["outcome"], row["retained_bytes"]) == ("within", 0)
    assert "second run" in ran.row("test_first", metric="retained")["reason"]


def test_what_is_kept_is_over_all_the_same(lazy):
    ran = lazy.tests("""
cache = []

class Node:
    def __init__(self): self.itself, self.tensor = self, torch.ones(256)

@retained
def test_once():
    step()
    if not cache: cache.append(torch.ones(64))

def test_forget():
    import sys
    sys.modules.pop("attnmem_lazy")

@retained
def test_cycle():
    step()
    Node()
""").run()
    assert ran.outcomes == {"failed": 2, "passed": 1}
    assert ran.row("test_once", metric="retained")["retained_bytes"] == 256
    assert ran.row("test_cycle", metric="retained")["retained_bytes"] == 1024


PEAK = '@pytest.mark.memory_budget("1 MiB")'


@pytest.mark.parametrize("markers", [f"{PEAK}\n@retained", f"@retained\n{PEAK}"])
def test_what_is_kept_once_is_over_beside_a_peak(lazy, markers):
    ran = lazy.tests(f"""
cache = []

{markers}
def test_once():
    step()
    if not cache: cache.append(torch.ones(64))

def test_forget():
    import sys
    sys.modules.pop("attnmem_lazy")

{markers}
def test_nothing(): step()
""").run()
    assert ran.outcomes == {"failed": 1, "passed": 2}
    row = ran.row("test_once", metric="retained")
    assert (row["outcome"], row["retained_bytes"]) == ("over", 256)
    assert ran.row("test_once", metric="peak")["outcome"] == "within"
    row = ran.row("test_nothing", metric="retained")
    assert (row["outcome"], row["retained_bytes"]) == ("within", 0)


def test_regions_and_checks_are_not_enforced_and_no_baseline_has_them(lazy):
    ran = lazy.tests("""
def test_region(attnmem):
    with attnmem.region("step", 0, metric="retained"): step()

def test_forget():
    import sys
    sys.modules.pop("attnmem_lazy")

def test_check(attnmem):
    seen = attnmem.measure(step)
    attnmem.check(seen, 0, metric="retained")

def test_again(attnmem):
    attnmem.check(attnmem.measure(step), 0, metric="retained")
""").run("--attnmem-strict=off", "--attnmem-update=all")
    assert ran.outcomes == {"passed": 4}
    for test, part in (("test_region", "step"), ("test_check", "check")):
        reason = ran.row(test, part, "retained")["reason"]
        assert reason.startswith("the first use of torch.attnmem_lazy_")
        assert reason.endswith(
            " was in it, and imports keep tensors alive; measure a second run: warmup=1"
        )
    assert ran.outcome("test_again", "check", "retained") == "within"
    written = (lazy.path / "attnmem-baseline.json").read_text("utf-8")
    assert "test_again" in written
    assert "test_region" not in written
    assert "test_check" not in written


def test_the_first_use_in_a_compare_or_a_growth_is_not_taken_for_memory_kept(lazy):
    ran = lazy.tests("""
def kept(): return torch.ones(512)

def test_compare(attnmem):
    attnmem.compare(kept, step, metric="retained")

def test_forget():
    import sys
    sys.modules.pop("attnmem_lazy")

def test_growth(attnmem):
    attnmem.growth(lambda N: step(), N=[256, 512, 768, 1024], metric="retained")
""").run("--attnmem-strict=off")
    assert ran.outcomes == {"passed": 2, "failed": 1}
    outcome = ran.outcome("test_compare", "compare", "retained")
    doubt = "the first use of torch.attnmem_lazy_"
    assert outcome.startswith(f"not enforced: the base was not measured: {doubt}")
    assert f"growth: at N=256 retained is not known: {doubt}" in ran.text


def test_what_the_first_run_alone_keeps_is_named(suite):
    suite.tests("""
cache = []

@pytest.mark.memory_budget(0, metric="retained")
def test_it():
    if not cache: cache.append(torch.ones(256))
""")
    assert suite.run().report("test_it")[-4:] == [
        "  held at the end (1 tensor):",
        "    1.0 KiB  [256] float32  ones  test_suite.py:8  in test_it",
        "             held by test_suite.cache[0]",
        "  attnmem explain retained",
    ]


def test_a_second_call_that_keeps_less_is_no_scratch(suite):
    suite.tests("""
cache = []

def fill():
    if not cache: cache.append(torch.ones(256))

def test_it(attnmem):
    attnmem.check(attnmem.measure(fill), 0, metric="retained")
""")
    note = "and 1.0 KiB that the second run did not keep: state of first use, most likely; warmup=1"
    assert note in suite.run().text
