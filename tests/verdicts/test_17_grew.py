"""A regression names the tensors that it consists of, or says nothing of them."""

import json

import pytest

from .gpt import GPT

BIASES = """
import os
import pytest
import torch

@pytest.mark.memory_budget
@pytest.mark.parametrize("N", [256])
def test_g(N):
    biases = [torch.empty(256) for _ in range(20)]
    x = torch.empty(N, 1000)
    if os.environ.get("REGRESSED"):
        kept = torch.empty(N, 8)
"""


def recorded(suite, text, monkeypatch, regression="1", backend="cpu", **files):
    for name, source in files.items():
        suite.write(source, f"{name}.py")
    suite.write(text, "test_g.py")
    before = suite.run("--attnmem-update=all", f"--attnmem-backend={backend}")
    assert "failed" not in before.outcomes
    monkeypatch.setenv("REGRESSED", regression)
    return suite.run(f"--attnmem-backend={backend}")


def grew(ran):
    return [line.strip() for line in ran.result.outlines if line.startswith("  grew ")]


def test_a_size_that_happens_to_be_n_is_no_n(suite, monkeypatch, backend):
    ran = recorded(suite, BIASES, monkeypatch, backend=backend)
    assert grew(ran) == ["grew      +32*N: one more float32 [N, 8], empty at test_g.py:12"]
    lines = ran.report("test_g[256]")
    assert lines[2:] == [
        "  held at the peak and not in the baseline (1 tensor):",
        "    8.0 KiB  [256, 8] float32  empty  test_g.py:12  in test_g  ← N·8",
        "  held at the peak besides (21 tensors):",
        "      1000.0 KiB  [256, 1000] float32  empty  test_g.py:10  in test_g      ← N·1000",
        "    20 × 1.0 KiB  [256] float32        empty  test_g.py:9   in <listcomp>",
        "  if this is intended: --attnmem-update all",
        "  attnmem explain temporaries",
    ]


STEP = """
import pytest
import torch
from blocks import GPT

@pytest.mark.memory_budget
@pytest.mark.parametrize(("B", "N"), [(2, 64)])
def test_step(B, N):
    model = GPT()
    model(torch.zeros(B, N, dtype=torch.long)).sum().backward()
"""
CACHE = """
import pytest
import torch
from blocks import Cache

@pytest.mark.memory_budget
@pytest.mark.parametrize("N", [48])
def test_cache(N):
    cache = Cache(1, 4, 0, 8)
    for _ in range(4):
        kept = cache.append(torch.ones(1, 4, N, 8))
"""
CHECKPOINTED = """
import pytest
import torch
from blocks import GPT

@pytest.mark.memory_budget
@pytest.mark.parametrize("N", [64])
def test_step(N):
    GPT(checkpointed=True)(torch.zeros(1, N, dtype=torch.long)).sum().backward()
"""


@pytest.mark.parametrize(
    ("suite_text", "regression", "told"),
    [
        (
            STEP,
            "mask",
            "+56.0 KiB: two more bool [B, 4, N, N], clone at blocks.py:25; two fewer bool [N, N]",
        ),
        (STEP, "hidden", "+32.0 KiB: two more float32 [B, N, 32], mul at blocks.py:55"),
        (
            STEP,
            "upcast",
            "+768.0 KiB: four more float64 [B, 4, N, N], softmax at blocks.py:29, to_copy at"
            " test_g.py:10, softmax_backward_data at test_g.py:10; one more block of 256.0 KiB,"
            " softmax_backward_data (scratch) at test_g.py:10; two fewer float32 [B, 4, N, N]; and"
            " 2 other shapes",
        ),
        (CACHE, "cache", "+512*N: one more float32 [1, 4, 4*N, 8], clone at blocks.py:64"),
        (
            CHECKPOINTED,
            "checkpoint",
            "+99.8 KiB: one more float32 [1, 4, N, N]; one more float32 [N, 96]; one more float32"
            " [64, 32], mm at test_g.py:9; and 9 other shapes",
        ),
    ],
    ids=["expanded mask", "retained list", "upcast", "clone in a cache", "no checkpoint"],
)
def test_a_gpt(suite, monkeypatch, suite_text, regression, told):
    ran = recorded(suite, suite_text, monkeypatch, regression, "simulated:H100", blocks=GPT)
    assert grew(ran) == [f"grew      {told}"]


PHASES = """
import os
import pytest
import torch

@pytest.mark.memory_budget
@pytest.mark.parametrize(("N", "d"), [(512, 64)])
def test_two_phases(N, d):
    blocks = torch.empty(100 * 1000 + 4096 * d + N * (N % 3), dtype=torch.uint8)
    del blocks
    x = torch.empty(N, N, dtype=torch.bool)
    if os.environ.get("REGRESSED"):
        mask = torch.empty(4, N, N)
"""


def test_a_symbol_without_a_form_means_bytes_alone(suite, monkeypatch):
    ran = recorded(suite, PHASES, monkeypatch)
    (told,) = grew(ran)
    assert told == (
        "grew      +3.9 MiB: one more float32 [4, N, N], empty at test_g.py:13; one more bool"
        " [N, N], empty at test_g.py:11; one less uint8 [363168]"
    )


def test_an_entry_of_before_has_no_counts_and_names_nothing(suite, monkeypatch):
    suite.write(BIASES, "test_g.py")
    suite.run("--attnmem-update=all")
    path = suite.path / "attnmem-baseline.json"
    data = json.loads(path.read_text("utf-8"))
    data["entries"][0]["held"] = ["empty float32 [256, 1000]"] + ["empty float32 N"] * 15
    path.write_text(json.dumps(data), "utf-8")
    monkeypatch.setenv("REGRESSED", "1")
    assert grew(suite.run()) == ["grew      +32*N"]


def test_a_part_that_is_renamed_is_nothing_more(suite, monkeypatch):
    renamed = BIASES.replace("def test_g(N):", "def test_g(N): made(N)\n\ndef made(N):")
    suite.write(BIASES, "test_g.py")
    suite.run("--attnmem-update=all")
    suite.write(renamed, "test_g.py")
    monkeypatch.setenv("REGRESSED", "1")
    ran = suite.run()
    assert grew(ran) == ["grew      +32*N: one more float32 [N, 8], empty at test_g.py:14"]


def test_the_shape_of_inputs_that_qkv_makes_is_proved(suite):
    suite.tests("""
@pytest.mark.memory_budget("1 KiB")
def test_it(qkv):
    q, k, v = qkv(3, 4, 64, 16)
    scores = q @ k.mT
    same = q.new_empty(64, 64)
""")
    assert suite.run().report("test_it")[2:] == [
        "  held at the peak (2 tensors):",
        "    192.0 KiB  [12, 64, 64] float32  bmm        test_suite.py:7  in test_it  ← B·H·N·N",
        "     16.0 KiB  [64, 64] float32      new_empty  test_suite.py:8  in test_it",
        "  attnmem explain scores",
    ]
