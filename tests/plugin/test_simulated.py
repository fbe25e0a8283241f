"""Suites on a simulated device, without a GPU and without data."""

import pytest

from pytest_attnmem.budgets.budget import Obstacle

pytestmark = pytest.mark.usefixtures("simulation_imported")


@pytest.fixture
def naive(suite):
    """A suite with textbook attention."""
    suite.head = NAIVE
    return suite


NAIVE = """
import pytest, torch

def attention(q, k, v):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    weights = scores.softmax(-1)
    return weights @ v
"""
#: The weights, the gradients of weights and scores, and the scratch of softmax on CUDA.
LIMIT = "4*B*H*N*M*itemsize + 8*B*H*N*d*itemsize + 1 KiB"


def test_a_marked_test_is_enforced_at_a_size_that_fits_no_machine(naive):
    ran = naive.tests(f"""
@pytest.mark.memory_budget("{LIMIT}", backend="simulated:H200")
@pytest.mark.parametrize("N", [65536])
def test_long(qkv, N):
    attention(*qkv(1, 1, N, 64, requires_grad=True)).sum().backward()

@pytest.mark.memory_budget("1 TiB", backend="simulated:A100-40GB")
def test_too_long(qkv):
    attention(*qkv(1, 8, 131072, 64))

@pytest.mark.memory_budget("1 GiB", backend="simulated")
def test_no_model():
    torch.linalg.matrix_exp(torch.ones(8, 8, device="cuda"))

@pytest.mark.memory_budget("1 GiB", backend="simulated:RTX 9000")
def test_no_profile(): pass
""").run()
    assert ran.outcomes == {"passed": 1, "failed": 2, "errors": 1}
    row = ran.row("test_long[65536]")
    assert (row["outcome"], row["backend"]) == ("within", "simulated:H200")
    assert row["peak_bytes"] > 4 * 65536**2 * 4
    assert row["workspace_bytes"] == 2 << 25
    assert ran.outcome("test_too_long") == (
        "over: out of memory on simulated:A100-40GB: needs 512.0 GiB more at test_suite.py:5;"
        " budget 1.0 TiB"
    )
    assert ran.short("test_too_long").startswith("FAILED: BudgetExceeded: out of memory on")
    assert ran.outcome("test_no_model") == (
        "not enforced: no model of aten.linalg_matrix_exp.default; use backend='null' or 'cuda'"
    )
    (line,) = ran.report("ERROR at setup of test_no_profile")
    assert line.startswith("memory_budget: unknown device 'RTX 9000'; expected one of GTX 1080, ")


def test_the_option_takes_a_suite_that_names_its_device(naive):
    naive.ini["attnmem_backend"] = "simulated:T4"
    ran = naive.tests("""
budget = pytest.mark.memory_budget

@budget("1 MiB")
def test_cuda(): attention(*[torch.randn(1, 2, 64, 16, device="cuda")] * 3)

@budget("1 MiB")
def test_none(): attention(*[torch.randn(1, 2, 64, 16)] * 3)

@budget("1 MiB")
def test_cpu(): attention(*[torch.randn(1, 2, 64, 16, device="cpu")] * 3)

@budget({"sm75": 4000, "cuda": 1}, device="cuda")
def test_for_cuda(): torch.ones(1000, device="cuda")

def test_fixture(attnmem):
    assert attnmem.computes
    measured = attnmem.measure(torch.ones, 1000, backend="simulated")
    assert measured.backend == "simulated:A100-80GB"
""").run()
    assert ran.outcomes == {"passed": 4, "failed": 1}
    assert {row["backend"] for row in ran.rows} == {"simulated:T4"}
    assert {row["nodeid"].partition("::")[2]: row["outcome"] for row in ran.rows} == {
        "test_cuda": "within",
        "test_none": "within",
        "test_cpu": "not enforced",
        "test_for_cuda": "within",
    }
    assert ran.outcome("test_cpu") == "not enforced: nothing was allocated"  # on the device


def test_a_failure_names_the_tensors_and_proves_their_shapes_at_another_size_of_each(naive):
    ran = naive.tests("""
runs = []

@pytest.mark.memory_budget("4*B*H*N*d*itemsize", backend="simulated")
def test_quadratic(qkv):
    runs.append(1)
    with open("runs.txt", "a") as file:
        print(1, file=file)
    attention(*qkv(1, 2, 1024, 64))

def test_runs():
    assert len(runs) == 1  # another run leaves nothing
""").run()
    assert ran.outcomes == {"passed": 1, "failed": 1}
    runs = (naive.path / "runs.txt").read_text().split()
    assert len(runs) == 1 + 2 + len(("B", "H", "N", "d"))  # who holds the peak is one more
    lines = ran.report("test_quadratic")
    assert lines[0] == ("peak 16.5 MiB exceeds budget 2.0 MiB (8.3x) on simulated:A100-80GB")
    assert lines[2] == "  held at the peak (3 tensors):"
    assert lines[3].split("  ")[-1] == "← B·H·N·N"
    assert "softmax  test_suite.py:6  in attention" in "\n".join(lines)


def test_a_body_reads_true_values_and_is_skipped_beyond_the_limit(suite):
    ran = suite.tests("""
@pytest.mark.memory_budget("1 MiB", backend="simulated")
def test_reads():
    x = torch.randn(4, 4, device="cuda")
    assert (x - x.cpu().numpy().mean().item()).mean().abs().item() < 1e-6
    branch = torch.empty(64 if x.square().sum() > 0 else 128, device="cuda")

@pytest.mark.memory_budget("1 MiB", backend="simulated")
def test_wrong():
    assert torch.ones(4, device="cuda").sum() == 5
""").run()
    assert ran.outcomes == {"passed": 1, "failed": 1}
    assert ran.outcome("test_reads") == "within"
    assert "assert tensor(4., device='cuda:0') == 5" in ran.text
    ran = suite.run("--attnmem-values-limit=0")
    assert ran.outcomes == {"failed": 2}
    unknown = (
        "not enforced: the program needs the values of a tensor at test_suite.py:12,"
        " which are not known: it takes 1.1e+01 floating-point operations, and"
        " --attnmem-values-limit is 0.0e+00; use backend='cpu' for this test"
    )
    assert ran.outcome("test_wrong") == unknown
    assert ran.report("test_wrong") == [unknown, f"  {Obstacle.VALUE_NOT_KNOWN.remedy}"]
    lenient = suite.run("--attnmem-values-limit=0", "--attnmem-strict=off")
    assert lenient.outcomes == {"skipped": 2}
    assert lenient.outcome("test_wrong") == unknown


def test_parts_warm_ups_and_fixtures_are_simulated_and_a_real_backend_measures_beside(suite):
    ran = suite.tests("""
def test_parts(attnmem):
    x = torch.ones(256, device=attnmem.device)
    with attnmem.region("double", "1 KiB", backend="simulated"):
        y = torch.cat([x[:128], x[128:]])
    seen = attnmem.measure(lambda: torch.ones(1 << 40, device="cuda"), backend="simulated:B200")
    assert seen.out_of_memory == "needs 4.0 TiB more at test_suite.py:8"
    assert x.sum().item() == 256

def test_both(attnmem):
    def step():
        x = torch.ones(8, 64, requires_grad=True)
        x.exp().sum().backward()

    attnmem.measure(step, backend="cpu")
    real = attnmem.measure(step, backend="cpu")
    simulated = attnmem.measure(step, backend="simulated")
    assert real.retained_bytes == simulated.retained_bytes == 0
    assert real.peak_bytes == simulated.peak_bytes

@pytest.fixture(scope="module")
def layer():
    return torch.nn.Linear(64, 64)

@pytest.mark.memory_budget("B*N*64*itemsize", backend="simulated", B=2, N=32, warmup=1,
                           dtype=torch.float32)
@pytest.mark.parametrize("again", [0, 1])
def test_layer(layer, again):
    assert layer.weight.is_cuda
    with torch.no_grad():
        layer(torch.ones(2 * 32, 64)[:0])
        layer(torch.empty(0, 64))
        del layer
""").run()
    assert ran.outcomes == {"passed": 4}
    assert ran.row("test_parts", "double")["peak_bytes"] == 1024
