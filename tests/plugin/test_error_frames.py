"""The traceback of an error: its last line is the program's on every backend."""

import re
import traceback

import pytest

import pytest_attnmem

SUITE = """
import unittest
import pytest, torch

DEVICE = "cpu"
BUDGET = pytest.mark.memory_budget("64 MiB")

def product(x):
    return x @ torch.randn(3, 5, device=x.device)  # in the program

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, gradient): return product(gradient)

class Model(torch.nn.Module):
    def forward(self, x): return product(x)

def ones(**kwargs): return torch.ones(4, 8, device=DEVICE, **kwargs)

@BUDGET
def test_body(): ones().view(3)  # in the program

@BUDGET
def test_forward(): Model()(ones())

@BUDGET
def test_backward(): Wrong.apply(ones(requires_grad=True)).sum().backward()

@BUDGET
def test_cause():
    try:
        product(ones())
    except RuntimeError as error:
        raise ValueError("it failed") from error  # in the program

def test_measured(attnmem): attnmem.measure(product, ones())

@pytest.fixture
def made(): return product(ones())

@BUDGET
def test_fixture(made): pass

class Case(unittest.TestCase):
    def test_unittest(self): product(ones())
"""
SUBTESTS = """
@BUDGET
def test_subtest(subtests):
    with subtests.test("part"):
        product(ones())
"""
#: The number of a line in a traceback of pytest's and of Python's own.
PLACE = re.compile(r"test_suite\.py(?::|\", line )(\d+)")
ON = {"cpu": "cpu", "simulated:A100-80GB": "cuda"}
SINCE_9 = pytest.version_tuple >= (9, 0)


@pytest.mark.parametrize("backend", ON)
@pytest.mark.parametrize("style", ["long", "short", "native"])
def test_the_last_line_is_the_programs(suite, backend, style):
    text = SUITE + (SUBTESTS if SINCE_9 else "")
    suite.write(text.replace('"cpu"', repr(ON[backend])))
    ran = suite.run(f"--attnmem-backend={backend}", f"--tb={style}", "--attnmem-explain=off")
    assert ran.outcomes["errors"] == 1
    assert "pytest_attnmem/" not in ran.text.replace("\\", "/")
    titles = ["test_body", "test_forward", "test_backward", "test_cause", "Case.test_unittest"]
    titles += ["test_measured", "ERROR at setup of test_fixture"]
    source = text.splitlines()
    for title in [*titles, *["test_subtest [part]"] * SINCE_9]:
        last = PLACE.findall("\n".join(ran.report(title)))[-1]
        assert source[int(last) - 1].endswith("# in the program"), title


def test_pytorchs_own_lines_stay_where_the_program_calls_it(suite):
    suite.write(SUITE)
    bare = suite.run("--tb=native", "-kbackward", "--attnmem-disable").report("test_backward")
    suite.write(SUITE.replace('"cpu"', '"cuda"'))
    ran = suite.run("--tb=native", "-kbackward", "--attnmem-backend=simulated")
    lines = [line for line in ran.report("test_backward") if "torch" in line]
    assert lines == [line for line in bare if "torch" in line]
    assert any("torch/autograd" in line.replace("\\", "/") for line in lines)


def test_a_modules_own_code(suite):
    suite.write("import torch\ntorch.ones(3, device='cuda').view(5)  # in the program")
    ran = suite.run("--attnmem-backend=simulated")
    assert "pytest_attnmem/" not in ran.text.replace("\\", "/")
    ran.result.stdout.fnmatch_lines(["test_suite.py:2: in <module>", "*# in the program"])


def test_an_error_outside_pytest():
    import torch

    def program():
        return torch.ones(3, device="cuda").view(5)

    with pytest.raises(RuntimeError) as raised:
        pytest_attnmem.measure(program, backend="simulated")
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "program"


LINES = """
import pytest
import torch

@pytest.mark.memory_budget("1 KiB")
def test_marked(): torch.empty(1024)

def test_checked(attnmem):
    m = attnmem.measure(torch.empty, 1024)
    attnmem.check(m, "1 KiB")

def test_in_a_region(attnmem):
    with attnmem.region("it", "1 KiB"):
        torch.empty(1024)

def test_of_the_user():
    helper()

def helper(): raise ValueError
"""


def test_the_line_of_a_failure_is_one_of_the_test(suite):
    suite.write(LINES)
    # Editors and annotations show it.
    lines = suite.run("--tb=line").text.splitlines()
    found = [re.search(r"test_suite\.py:(\d+): (?:\w+\.)?(\w+)", line) for line in lines]
    assert [(int(one[1]), one[2]) for one in found if one] == [
        (5, "BudgetExceeded"),
        (10, "BudgetExceeded"),
        (13, "BudgetExceeded"),
        (19, "ValueError"),
    ]


HINT = (
    "there is no CUDA device here; --attnmem-backend simulated:H100 shows the test one, and"
    " measures its memory"
)


def test_a_measured_test_that_lacks_a_device_is_told_what_has_one(suite):
    ran = suite.tests("""
def _lazy_init():  # as torch.cuda's, which a session before may have replaced in this process
    raise AssertionError("Torch not compiled with CUDA enabled")

@pytest.fixture
def model(): _lazy_init()

@pytest.mark.memory_budget("1 KiB")
def test_body(): _lazy_init()

@pytest.mark.memory_budget("1 KiB")
def test_fixture(model): pass

@pytest.mark.memory_budget("1 KiB")
def test_other(): raise AssertionError("Torch not compiled with CUDA enabled")

def test_unmarked(): _lazy_init()
""").run("-rN")
    assert ran.report("test_body")[-1] == ran.report("ERROR at setup of test_fixture")[-1] == HINT
    assert ran.text.count(HINT) == 2
