"""On a torch whose rules are unknown, what rests on them is not enforced, and the rest measured."""

import pytest
import torch

import pytest_attnmem as attnmem
from pytest_attnmem.cli import main
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.kernels import standard

VERSION, COMMIT = torch.__version__, torch.version.git_version
MISSING = "no rules for torch 9.9.0; run attnmem certify"
REFUSED = (
    f"backend 'simulated' cannot measure here: {MISSING}; 'cpu', 'cuda' and 'null' measure on"
    " every torch"
)
UNDERIVED = (
    f"derive cannot answer here: {MISSING}; growth(fn, N=[…]) fits measurements of another backend"
)
SIZES = ["--B", "1", "--H", "1", "--d", "8"]
#: Every command that needs rules, and its refusal.
COMMANDS = [
    (["predict", "standard", *SIZES, "--N", "8"], REFUSED),
    (["max-length", "standard", *SIZES], REFUSED),
    (["sweep", "--simulate", "--kernel", "standard", "--d", "8", "--n", "8"], REFUSED),
    (["derive", "torch:sin", "N 4"], UNDERIVED),
    (["derive", "torch:sin", "N 4", "--device", "H100"], UNDERIVED),
]


@pytest.fixture(autouse=True)
def torch_9_9(monkeypatch, tmp_path, simulation_imported):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # no build for the null device is kept
    monkeypatch.setattr(torch, "__version__", "9.9.0+cpu")
    monkeypatch.setattr(torch.version, "git_version", "1a2b3c4d5e6f")


@pytest.mark.parametrize(("arguments", "refusal"), COMMANDS, ids=lambda value: value[0])
def test_a_command_refuses_in_one_line(capsys, arguments, refusal):
    assert main(arguments) == 2
    assert tuple(capsys.readouterr()) == ("", f"attnmem {arguments[0]}: {refusal}\n")


def test_a_sweep_measures_kernels_and_gives_no_closed_form(capsys):
    sweep = ["sweep", "--kernel", "standard,ring:4", "--d", "8", "--n", "64", "--batch", "1"]
    assert main([*sweep, "--device", "cpu", "--passes", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in lines if MISSING in line] == ["ring:4"]
    assert [line for line in lines if line.startswith("standard ") and " ok" in line] != []


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (lambda: attnmem.measure(torch.ones, 8, backend="simulated"), REFUSED),
        (lambda: attnmem.region("r", "1 B", backend="simulated:H100"), REFUSED),
        (lambda: attnmem.growth(torch.ones, size=[1, 2, 3, 4], backend="simulated"), REFUSED),
        (lambda: attnmem.compare(torch.ones, torch.ones, backend="simulated"), REFUSED),
        (lambda: attnmem.derive(torch.sin, "N 4"), UNDERIVED),
    ],
    ids=["measure", "region", "growth", "compare", "derive"],
)
def test_a_function_refuses_in_one_line(call, refusal):
    with pytest.raises(BackendUnavailable) as refused:
        call()
    assert str(refused.value) == refusal


SUITE = """
@pytest.mark.memory_budget("1 B")
def test_marker(qkv):
    q, k, v = qkv(1, 2, 64, 16)
    assert ((q @ k.mT).softmax(-1) @ v).shape == q.shape

@pytest.mark.memory_budget("1 B")
def test_more_than_the_device_has():
    torch.empty(1 << 45, device="cuda")

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_contract(N):
    torch.ones(N, N, device="cuda")

def test_region(attnmem):
    with attnmem.region("step", "1 B"):
        torch.ones(8, device="cuda")

def test_check(attnmem):
    attnmem.check(attnmem.measure(torch.ones, 8, device="cuda"), "1 B")

def test_compare(attnmem):
    attnmem.compare(lambda: torch.ones(9, device="cuda"), lambda: torch.ones(8, device="cuda"))
"""


@pytest.mark.parametrize("strict", ["off", "marked"])
def test_a_suite_runs_on_the_simulated_device_and_is_not_enforced(suite, strict):
    ran = suite.tests(SUITE).run("--attnmem-backend=simulated:H100", f"--attnmem-strict={strict}")
    assert ran.outcomes == {"passed" if strict == "off" else "failed": 6}
    assert [(row["outcome"], row["reason"]) for row in ran.rows] == [("not enforced", MISSING)] * 6
    assert {row["peak_bytes"] for row in ran.rows} == {None}


def test_a_body_that_asks_for_a_number_of_the_rules_is_skipped(suite):
    ran = suite.tests("""
def test_growth(attnmem):
    attnmem.growth(lambda N: torch.ones(N), N=[8, 16, 32, 64]).assert_within("O(N)")

def test_derive(attnmem):
    attnmem.derive(torch.sin, "N 4")
""").run("--attnmem-backend=simulated:H100")
    assert ran.outcomes == {"skipped": 2}
    assert f"growth: at N=8 peak is not known: {MISSING}" in ran.text
    assert UNDERIVED in ran.text
    ran = suite.run("--attnmem-backend=simulated:H100", "--attnmem-strict=all")
    assert ran.outcomes == {"failed": 2}


def test_a_baseline_of_the_rules_is_not_enforced(suite, monkeypatch):
    suite.tests("""
@pytest.mark.memory_budget()
def test_marker():
    torch.ones(8, device="cuda")

def test_region(attnmem):
    with attnmem.region("step"):
        torch.ones(8, device="cuda")
""")
    options = ["--attnmem-backend=simulated:H100", "--attnmem-baseline=b.json"]
    with monkeypatch.context() as known:
        known.setattr(torch, "__version__", VERSION)
        known.setattr(torch.version, "git_version", COMMIT)
        suite.run(*options, "--attnmem-update=all")
    written = (suite.path / "b.json").read_bytes()
    ran = suite.run(*options)
    assert ran.outcomes == {"passed": 2}
    assert [(row["outcome"], row["reason"]) for row in ran.rows] == [("not enforced", MISSING)] * 2
    suite.run(*options, "--attnmem-update=all")
    assert (suite.path / "b.json").read_bytes() == written


def test_a_model_with_scratch_is_no_limit_and_a_model_of_tensors_is(suite):
    ran = suite.tests("""
from pytest_attnmem import MemoryModel
from pytest_attnmem.budgets.memory_model import Phase
from pytest_attnmem.kernels import standard

OWN = MemoryModel("own", (Phase("all", {"x": "32"}),))

@pytest.mark.memory_budget(standard.MODEL.forward, backend="cpu")
def test_scratch(qkv):
    q, k, v = qkv(1, 2, 64, 16)
    standard.attention(q, k, v)

@pytest.mark.memory_budget(OWN, backend="cpu", exact=True)
def test_tensors():
    torch.ones(8)

@pytest.mark.memory_budget("31 B", backend="cpu")
def test_formula():
    torch.ones(8)
""").run()
    assert ran.outcome("test_scratch") == f"not enforced: {MISSING}"
    assert ran.row("test_scratch")["peak_bytes"] > 0
    assert ran.outcome("test_tensors") == "within"
    assert ran.row("test_formula")["outcome"] == "over"
    assert standard.MODEL.forward.has_scratch(("cpu",))
