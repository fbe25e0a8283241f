"""What the plugin runs besides the test leaves the process as one run of the test would."""

import pytest

STATE = """
import random
import pytest
import torch

CALLS, SEEN, CACHE = [], {}, {}
MODEL = torch.nn.Linear(2, 2)
drawn = []

class Job:
    last = None

def body(n):
    assert len(CALLS) in (0, 1)  # as often as a run may have been before: by the first run
    CALLS.append(n)
    SEEN[n] = SEEN.get(n, 0) + 1
    Job.last = torch.ones(n)
    with torch.no_grad():
        MODEL.weight += 1
    MODEL.steps = getattr(MODEL, "steps", 0) + 1
    drawn.append((random.random(), torch.rand(1).item()))

def check(n):
    random.seed(0), torch.manual_seed(0)
    first = random.random(), torch.rand(1).item()
    assert (CALLS, SEEN, MODEL.steps, len(drawn)) == ([n], {n: 1}, 1, 1)
    assert drawn == [first]
    assert MODEL.weight.sum().item() == pytest.approx(START.sum().item() + 4)

START = MODEL.weight.detach().clone()

@pytest.fixture(autouse=True)
def seeded(): random.seed(0), torch.manual_seed(0)
"""


CPU, UPDATE = "--attnmem-backend=cpu", "--attnmem-update=all"
RUNS = {
    "at other sizes": """
@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_it(N): body(N)
""",
    "to explain": """
@pytest.mark.memory_budget("1 KiB")
def test_it():
    body(64)
    torch.ones(1024)
""",
    "to warm up": """
@pytest.mark.memory_budget("1 KiB", warmup=1)
@pytest.mark.memory_budget(0, metric="retained", warmup=1)
def test_it(): body(64)
""",
}


@pytest.mark.parametrize("runs", RUNS)
def test_other_runs_leave_nothing(suite, runs):
    suite.write(f"{STATE}{RUNS[runs]}\ndef test_after(): check(64)\n")
    ran = suite.run(CPU)
    if runs == "to explain":
        assert ran.outcomes == {"passed": 1, "failed": 1}
        assert "4.0 KiB  [1024] float32  ones" in "\n".join(ran.report("test_it"))
    else:  # what a warm-up made is older than the run that counts
        assert ran.outcomes == {"passed": 2}
        assert {row["outcome"] for row in ran.rows} == {"within"}


def test_a_tensor_too_large_to_be_put_back_is_named(suite, monkeypatch):
    monkeypatch.setattr("pytest_attnmem.measurement.program_state._MOST_BYTES", 8)
    ran = suite.tests("""
TABLE = torch.zeros(64)

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_it(N): TABLE.add_(torch.ones(N)[:1])
""").run(CPU)
    assert ran.outcome("test_it[64]") == (
        "not enforced: the test changes test_suite.TABLE, which is too large to be put back after"
        " another run; make it in the test"
    )


CACHES = """
from functools import lru_cache
import pytest
import torch

@lru_cache(maxsize=MAXSIZE)
def mask(n): return torch.ones(n, n).tril()

KEPT = {}
def kept(n):
    if n not in KEPT:
        KEPT[n] = torch.ones(n, n).tril()
    return KEPT[n]

@pytest.mark.parametrize("N", [64, 80, 64, 32])
def test_cached(N): torch.ones(N, N) @ mask(N)

@pytest.mark.parametrize("N", [64, 80, 64, 32])
def test_kept(attnmem, N):
    with attnmem.region("part"):
        torch.ones(N, N) @ kept(N)
"""


LAST = """
from collections import deque

import pytest
import torch

LAST = deque(maxlen=4)

def starts(lengths):
    for known, found in LAST:
        if known is lengths:
            return found
    found = lengths.cumsum(0)
    LAST.append((lengths, found))
    return found

@pytest.mark.parametrize("N", [64, 80, 64, 32])
def test_packed(N):
    torch.manual_seed(0)
    starts(torch.ones(N))
    torch.rand(N, N) @ torch.rand(N, N)
"""


FILLED = """
import torch

MASKS = {}

def mask(n):
    if n not in MASKS:
        MASKS[n] = torch.ones(n, n)
    return MASKS[n]

def test_shape(): assert mask(64).shape == (64, 64)
def test_used(): mask(64).exp()
"""


HISTORY = """
from collections import deque

import torch

HISTORY = deque(maxlen=8)

def test_graph(): HISTORY.append((torch.ones(1000, requires_grad=True) * 2).sum())
def test_number(): HISTORY.append(torch.ones(500).sum())
"""

SIZES = (("-k", "32"), ("-k", "64_1 or 80"))
CACHED = (*SIZES, ("test_suite.py::test_cached[32]",))
#: A suite, and the tests that run alone.
ORDERS = {
    "a cache of one": (CACHES.replace("MAXSIZE", "1"), *CACHED),
    "a cache": (CACHES.replace("MAXSIZE", "None"), *CACHED),
    "the last results": (LAST, *SIZES, ("test_suite.py::test_packed[80]",)),
    "filled": (FILLED, ("test_suite.py::test_used", "test_suite.py::test_shape")),
    "history": (HISTORY, ("-k", "number")),
}
#: The bytes of the last test that runs alone, and the cache that it fills, which is named.
LAST_ROWS = {
    "a cache": ((8192, 8192), "same, +4.0 KiB filled once: tril at test_suite.py:7"),
    "the last results": ((3 * 80 * 80 * 4,) * 2, "same, +640 B filled once: "),
}


@pytest.mark.parametrize("kind", ORDERS)
def test_a_baseline_is_the_same_in_any_order(suite, kind):
    text, *orders = ORDERS[kind]
    suite.write(text)
    updated = suite.run(CPU, UPDATE)
    if kind == "a cache":  # another update of what is recorded, and leaves memory, changes nothing
        suite.run(CPU, UPDATE)
    assert kind != "the last results" or {row["outcome"] for row in updated.rows} == {"within"}
    for chosen in ((), *orders):
        ran = suite.run(CPU, *chosen)
        rows = [row for row in ran.rows if not row["nodeid"].endswith("test_graph")]
        assert {row["baseline_state"] for row in rows} == {"same"}
        assert "failed" not in ran.outcomes
    if kind in LAST_ROWS:
        numbers, reason = LAST_ROWS[kind]
        (row,) = ran.rows
        assert (row["baseline_bytes"], row["peak_bytes"]) == numbers
        assert row["reason"].startswith(reason)


def test_what_depends_on_the_order_or_never_repeats_is_not_recorded(suite):
    ran = suite.tests("""
STATES = []

@pytest.fixture(scope="module")
def batches():
    return (torch.zeros(size) for size in (4096, 4096))

def test_first(batches): next(batches) * 2
def test_last(batches): next(batches) * 2

def test_never():
    STATES.append(torch.ones(64))
    torch.stack(STATES)
""").run(CPU, UPDATE)
    for test in ("test_first", "test_last"):
        assert ran.outcome(test) == (
            "not enforced: depends on what ran before: the test advances batches, a generator,"
            " which nobody can put back; make it anew in each test"
        )
    assert ran.outcome("test_never").startswith("not enforced: depends on what ran before: ones at")
    assert not (suite.path / "attnmem-baseline.json").exists()


def changed(suite, source, flag):
    """Returns the session with a flag set, after one that recorded the suite without it."""
    suite.write(source.replace(flag, "False"))
    suite.run(CPU, UPDATE)
    suite.write(source.replace(flag, "True"))
    ran = suite.run(CPU)
    assert ran.outcomes == {"failed": 1}
    return ran


KEEPS = """
import pytest
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.last = torch.nn.Linear(256, 256), None

    def forward(self, x):
        y = self.layer(x)
        self.last = y if KEEPS else None
        return y.relu()

@pytest.fixture(scope="module")
def net():
    return Net()

def test_forward(net): net(torch.ones(1024, 256))
"""


def test_what_each_run_keeps_in_the_place_of_the_last_is_no_improvement(suite):
    (row,) = changed(suite, KEEPS, "KEEPS").rows
    assert row["outcome"] == "not enforced"
    assert row["reason"].startswith(
        "each run keeps a tensor until the next: ones at test_suite.py:19"
    )


FILLS = """
import pytest
import torch

class Rows:
    mask = None
    def __call__(self, x):
        if MASKS and self.mask is None:
            self.mask = torch.ones(64, 64)
        return (x @ x).sum()

@pytest.fixture
def rows(): return Rows()

class TestRows:
    @pytest.fixture(autouse=True)
    def made(self): self.steps = []

    def test_it(self, rows):
        self.steps.append(rows(torch.ones(8, 8, requires_grad=True)))
        assert len(self.steps) == 1
"""


def test_what_a_fixture_of_the_test_fills_counts_each_time(suite):
    ran = changed(suite, FILLS, "MASKS")
    assert ran.report("TestRows.test_it")[0].startswith("peak 16.5 KiB is 16.0 KiB over its")
    suite.write(FILLS.replace("MASKS", "False"))
    (row,) = suite.run(CPU).rows
    assert (row["reason"], row["peak_bytes"]) == ("", row["baseline_bytes"])


LEAKS = """
import torch
STATES = []
def test_it():
    STATES.append(torch.ones(1024)) if LEAKS else torch.ones(1024)
"""


def test_a_leak_is_a_regression(suite):
    ran = changed(suite, LEAKS, "LEAKS")
    assert ran.report("test_it")[0] == (
        "retained 4.0 KiB is 4.0 KiB over its baseline 0 B on cpu   attnmem-baseline.json"
    )
    (row,) = ran.rows
    found = row["metric"], row["baseline_bytes"], row["baseline_state"]
    assert found == ("retained", 0, "regressed")


def test_a_fixture_that_cannot_be_made_twice_stays_as_it_is(suite):
    ran = suite.tests("""
KEPT = []

@pytest.fixture
def port(tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "port"
    path.touch(exist_ok=False)
    yield path
    path.unlink()

def test_it(port):
    KEPT[:] = [torch.ones(64)]
    assert port.exists()
""").run(CPU, UPDATE)
    assert (ran.outcomes, ran.outcome("test_it")) == ({"passed": 1}, "within")


def test_each_run_finds_the_fixtures_the_folder_and_the_modules_that_the_first_found(suite):
    suite.write("KEPT = {}", "tables.py")  # which a function imports
    ran = suite.tests("""
import itertools, logging, os

@pytest.fixture(scope="session")
def ids(): return itertools.count()

@pytest.fixture
def settings(tmp_path):
    (tmp_path / "settings").mkdir()
    return tmp_path / "settings"

@pytest.fixture
def checked(tmp_path, monkeypatch):
    yield
    assert sorted(os.listdir(tmp_path)) == ["64", "settings"]
    assert os.path.samefile(os.getcwd(), tmp_path)

@pytest.mark.memory_budget("O(N)", warmup=2)
@pytest.mark.parametrize("N", [64])
def test_it(N, ids, settings, checked, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    logging.getLogger().warning("once")
    assert len(caplog.records) == 1
    assert os.listdir(".") == ["settings"]
    next(ids)
    os.rmdir("settings") if N < 64 else os.mkdir(str(N))
    import tables
    tables.KEPT[N] = torch.ones(N)

def test_after(ids):
    import tables
    assert next(ids) == 1 and [*tables.KEPT] == [64]
""").run(CPU)
    assert ran.outcomes == {"passed": 2}
    assert ran.outcome("test_it[64]") == "within"


def test_tensors_from_outside_are_put_back_on_a_simulated_device(suite):
    ran = suite.tests("""
MODEL, STATES, STEPS = torch.nn.Linear(4, 4), [], torch.zeros(1)

class Job: optimizer = None

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_it(N):
    if Job.optimizer is None:
        Job.optimizer = torch.optim.AdamW(MODEL.parameters())
    MODEL(torch.ones(N, 4)).sum().backward()
    Job.optimizer.step()
    STEPS.add_(1)
    STATES[:] = [torch.ones(N)]

def test_after():
    assert (STEPS.item(), Job.optimizer.state[MODEL.weight]["step"]) == (1, 1)
    assert [len(state) for state in STATES] == [64]
""").run("--attnmem-backend=simulated:H100", "--attnmem-update=all")
    assert ran.outcomes == {"passed": 2}
    assert ran.outcome("test_it[64]") == "within"


def test_a_number_that_depends_on_random_numbers_is_not_recorded(suite):
    ran = suite.tests("""
import random

@pytest.fixture
def seeded(): random.seed(0), torch.manual_seed(0)

def test_of_python(): torch.ones(random.randint(1, 9999))

def test_of_torch():
    x = torch.randn(64, 64)
    x[x > 0]

def test_seeded(seeded): torch.ones(random.randint(1, 9999)), torch.randn(64, 64).relu().nonzero()

def test_of_values_alone(): torch.randn(64)

@pytest.mark.memory_budget("1 MiB")
def test_with_a_limit(): torch.ones(random.randint(1, 9999))

def test_with_a_region(attnmem):
    with attnmem.region("drawn"):
        torch.ones(random.randint(1, 9999))
    with attnmem.region("limited", "1 MiB"):
        torch.ones(random.randint(1, 9999))
""").run(CPU, UPDATE)
    refused = (
        "not enforced: depends on random numbers; seed them in the test, or in a fixture of its"
    )
    for test in ("test_of_python", "test_of_torch"):
        assert ran.outcome(test).startswith(refused)
    assert ran.outcome("test_with_a_limit") == (
        "within: not recorded: depends on random numbers; seed them in the test, or in a fixture of"
        " its scope"
    )
    assert "attnmem-baseline.json: 5 left out, because nothing is known to record" in ran.text
    ran = suite.run(CPU)
    assert ran.outcomes == {"passed": 6}
    assert ran.outcome("test_with_a_limit") == "within"
    known = [row for row in ran.rows if row["baseline_bytes"] is not None]
    assert [row["nodeid"].partition("::")[2] for row in known] == [
        "test_of_values_alone",
        "test_seeded",
    ]
    assert {row["baseline_state"] for row in known} == {"same"}


def test_examples_of_hypothesis_are_random_numbers(suite):
    suite.write("""
import torch
from hypothesis import given, settings, strategies

sizes = given(strategies.integers(1, 10**6))
# Without its word, Hypothesis draws the same examples each time where it runs in CI.
some = settings(max_examples=5, deadline=None, database=None, derandomize=False)

@some
@sizes
def test_drawn(size): torch.ones(size)

@settings(some, derandomize=True)
@sizes
def test_the_same(size): torch.ones(size)

@some
@sizes
def test_of_values_alone(size): torch.ones(64) * size
""")
    ran = suite.run(CPU, UPDATE)
    assert ran.outcome("test_drawn").startswith("not enforced: depends on random numbers")
    ran = suite.run(CPU)
    assert {row["nodeid"].partition("::")[2]: row["baseline_state"] for row in ran.rows} == {
        "test_the_same": "same",
        "test_of_values_alone": "same",
    }


def test_an_entry_of_another_number_of_threads_is_compared(suite, monkeypatch):
    import torch

    suite.write("""
import torch
def test_it(): torch.ones(1024 * torch.get_num_threads())
""")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    suite.run(CPU, UPDATE)
    path = suite.path / "attnmem-baseline.json"
    assert '"on": "cpu threads1 torch' in path.read_text()
    assert '"bytes": 4096' in path.read_text()
    text = path.read_text().replace("threads1", "threads3").replace("4096", str(3 * 4096))
    path.write_text(text)
    ran = suite.run(CPU)
    assert ran.row("test_it")["baseline_state"] == "same"
    assert torch.get_num_threads() != 3
