"""Closed forms of tests: an update stores them, and a regression compares them."""

import json

import pytest
import torch

from .baselines import entry, write_baseline

#: Two matrices, and a third one if the environment variable is set.
SUITE = """
import os
import pytest
import torch

def attention(q, k, v):
    scores = masked = q @ k.mT
    if os.environ.get("MASKED"):
        masked = scores.masked_fill(torch.zeros(()) > 1, 0.0)
    return masked.softmax(-1) @ v

@pytest.mark.memory_budget("1 GiB")
@pytest.mark.parametrize(("B", "H", "N", "d"), [(1, 8, 256, 16)])
def test_it(qkv, B, H, N, d):
    attention(*qkv(B, H, N, d))

@pytest.mark.parametrize("N", [256])
def test_region(attnmem, qkv, N):
    q, k, v = qkv(1, 8, N, 16)
    with attnmem.region("forward"):
        attention(q, k, v)

@pytest.mark.memory_budget
def test_no_sizes(qkv):
    attention(*qkv(1, 8, 256, 16))
"""


def lines(suite):
    entries = json.loads((suite.path / "attnmem-baseline.json").read_text("utf-8"))["entries"]
    return {one["test"].partition("::")[2].partition("[")[0]: one for one in entries}


def test_the_form_and_who_held_it_are_stored(suite):
    suite.write(SUITE)
    ran = suite.run("--attnmem-update=all", "--attnmem-backend=cpu")
    assert ran.outcomes == {"passed": 3}
    found = lines(suite)
    assert found["test_it"]["formula"] == "8*H*N^2 + 4*H*N*d"  # for a single batch
    assert found["test_it"]["held"] == [
        "1 × float32 [H, N, N] bmm, test_suite.py in attention",
        "1 × float32 [1, H, N, N] softmax, test_suite.py in attention",
        "1 × float32 [H, N, d] bmm, test_suite.py in attention",
    ]
    assert found["test_region"]["formula"] == "64*N^2 + 512*N"
    assert found["test_region"]["held"] == found["test_it"]["held"]
    assert "formula" not in found["test_no_sizes"]


def test_a_regression_says_which_term_came_in_and_who_holds_it(suite, monkeypatch):
    suite.write(SUITE)
    suite.run("--attnmem-update=all", "--attnmem-backend=cpu")
    monkeypatch.setenv("MASKED", "1")
    ran = suite.run("--attnmem-backend=cpu", "--attnmem-markdown=a.md", "--attnmem-github")
    assert ran.outcomes == {"failed": 3}
    grew = "  grew      +4*H*N^2: one more float32 [1, H, N, N], masked_fill at test_suite.py:9"
    assert ran.report("test_it[1-8-256-16]")[1] == grew
    assert f"\n{grew}\n" in (suite.path / "a.md").read_text("utf-8")
    assert f"%0A{grew}%0A" in ran.text
    assert (
        "grew      +32*N^2: one more float32 [1, H, N, N], masked_fill at test_suite.py:9"
    ) in "\n".join(ran.report("test_region[256]"))
    assert ran.report("test_no_sizes")[1] == (
        "  grew      +2.0 MiB: one more float32 [1, H, N, N], masked_fill at test_suite.py:9"
    )
    quiet = suite.run("--attnmem-backend=cpu", "--attnmem-explain=off")
    assert "grew" not in quiet.text
    assert quiet.report("test_it[1-8-256-16]")[0].startswith("peak ")


def test_simulated_a_size_of_one_is_varied_too(suite):
    suite.write(SUITE)
    suite.run("--attnmem-update=all", "--attnmem-backend=simulated:H100", "-k", "test_it")
    assert lines(suite)["test_it"]["formula"] == "8*B*H*N^2 + 4*B*H*N*d"
    version = ".".join(torch.__version__.split(".")[:2])
    assert lines(suite)["test_it"]["on"] == f"simulated:H100 torch{version}"


def test_an_entry_that_stays_keeps_its_form_and_nothing_runs_again(scripted):
    scripted.tests("""
runs = []

@pytest.mark.memory_budget
@pytest.mark.parametrize("N", [64])
def test_it(N):
    runs.append(N)
    memory.use(100)

def test_runs(): assert runs == [64]
""")
    known = entry("test_it[64]", 100, formula="50*N - 3100", held=["mine"])
    write_baseline(scripted, known)
    assert scripted.run("--attnmem-update=all").outcomes == {"passed": 2}
    assert lines(scripted)["test_it"] == {**known, "retained": 0}  # an earlier version had none


@pytest.mark.parametrize(
    ("body", "formula"),
    [
        ("memory.use(3 * N + 5)", "3*N + 5"),
        ("memory.use(N * N // 2)", "N^2/2"),
        ("memory.use(100)", "100"),
        ("memory.use(2 ** (N // 8))", None),  # not a polynomial
        ("assert N == 64; memory.use(100)", None),  # fails at any other size
        ("memory.use(N); memory.problem = 'odd' if N < 64 else None", None),
        ("memory.use(N if N > 40 else 2 * N)", None),  # a branch
    ],
)
def test_where_there_is_no_form_bytes_alone_are_stored(scripted, body, formula):
    ran = scripted.tests(f"""
@pytest.mark.memory_budget
@pytest.mark.parametrize("N", [64])
def test_it(N):
    {body}
""").run("--attnmem-update=all")
    assert ran.outcomes == {"passed": 1}
    assert lines(scripted)["test_it"].get("formula") == formula
    assert lines(scripted)["test_it"]["bytes"] > 0


def test_what_is_no_usual_size_is_not_varied(scripted):
    scripted.tests("""
runs = []

@pytest.mark.memory_budget
@pytest.mark.parametrize("seed", [64])
def test_it(seed):
    runs.append(seed)
    with open("runs.txt", "a") as file:
        print(seed, file=file)
    memory.use(seed)

def test_runs(): assert runs == [64]
""")
    assert scripted.run("--attnmem-update=all").outcomes == {"passed": 2}
    runs = (scripted.path / "runs.txt").read_text().split()
    assert runs == ["64"] * 3  # the second run confirms the number, the third lists the tensors
    assert "formula" not in lines(scripted)["test_it"]


def test_explain_off_derives_nothing(scripted):
    scripted.tests("""
@pytest.mark.memory_budget
@pytest.mark.parametrize("N", [64])
def test_it(N): memory.use(N)
""")
    scripted.run("--attnmem-update=all", "--attnmem-explain=off")
    assert lines(scripted)["test_it"] == entry("test_it[64]", 64, retained=0)
