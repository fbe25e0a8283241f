"""The traceback of a program's own error: its last line is the program's on every backend."""

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
