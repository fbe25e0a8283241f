"""FlashAttention-2 in Triton: its results by Triton's interpreter, and what it says without one."""

from __future__ import annotations

import importlib.util
import re

import pytest
import torch

from pytest_attnmem.kernels import flash_triton
from pytest_attnmem.kernels.flash_triton import KERNEL, MODEL, attention
from pytest_attnmem.measurement.qkv_inputs import qkv
from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.symbols.attention_shape import Source, gather

from . import flash_triton_program as program
from . import programs

TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
CASES = pytest.mark.parametrize("case", program.CASES, ids=str)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The interpreter's result of every case."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    destination = tmp_path_factory.mktemp("triton") / "results.pt"
    programs.run(program, destination, TRITON_INTERPRET="1")
    return torch.load(destination, weights_only=False)


@CASES
def test_it_is_attention_and_lse_alone_is_saved_beside_inputs_and_output(case, results):
    sizes, dtype, causal = case
    found, (lse,) = results[case]["computed"]
    expected, exact_lse = programs.exact(programs.tensors(sizes, dtype), causal)
    assert {x.dtype for x in found} == {dtype}
    programs.hold(found, expected, TOLERANCE[dtype])
    assert lse.dtype == torch.float32
    assert (lse.double() - exact_lse).abs().max() <= 1e-5


@CASES
def test_two_runs_are_equal_to_the_bit_and_all_is_written(case, results):
    # The second starts from NaN where nothing is written.
    pairs = zip(results[case]["computed"][0], results[case]["again"], strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_options_and_layouts(results):
    sizes, dtype, _ = case = program.CASES[-1]
    expected, _ = programs.exact(programs.tensors(sizes, dtype), scale=0.7)
    programs.hold(results["scale"], expected, TOLERANCE[dtype])
    pairs = zip(results["strided"], results[case]["computed"][0], strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_no_queries(results):
    out, dq, dk, dv = results["empty"]
    assert out.shape == dq.shape == (2, 2, 0, 4)
    assert dk.eq(0).all()
    assert dv.eq(0).all()


@pytest.fixture
def without_interpreter(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


@pytest.mark.usefixtures("without_interpreter")
@pytest.mark.parametrize(
    ("installed", "message"),
    [
        (None, "flash-triton needs Triton: pip install triton"),
        (object(), "flash-triton runs on cuda, or on the CPU with TRITON_INTERPRET=1, got cpu"),
    ],
)
def test_where_it_does_not_run(installed, message, monkeypatch):
    monkeypatch.setattr(flash_triton.importlib.util, "find_spec", lambda name: installed)
    x = torch.zeros(1, 1, 3, 2)
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}$"):
        attention(x, x, x)


TYPES = "q must be of one of torch.float16, torch.bfloat16, torch.float32 in flash-triton"
LARGE = "a head of k must have less than 2**31 elements in flash-triton"


@pytest.mark.parametrize(
    ("M", "d", "dv", "dtype", "message"),
    [
        (3, 2, 2, torch.float64, f"{TYPES}, got torch.float64"),
        (3, 257, 257, torch.float32, "d must be 1 to 256 in flash-triton, got 257"),
        (3, 2, 300, torch.float32, "dv must be 1 to 256 in flash-triton, got 300"),
        (3, 2, 0, torch.float32, "dv must be 1 to 256 in flash-triton, got 0"),
        (2**30, 2, 2, torch.float32, f"{LARGE}, got [1073741824, 2]"),
    ],
)
def test_what_it_does_not_take(M, d, dv, dtype, message):
    shapes = ((1, 1, 3, d), (1, 1, M, d), (1, 1, M, dv))
    tensors = [torch.empty(shape, dtype=dtype, device="meta") for shape in shapes]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        attention(*tensors)


class Programs:
    """Triton's, launched without effect: what is left is what the kernel allocates."""

    def __init__(self):
        self.launched = []

    def __getattr__(self, name):
        def launch(*args, **kwargs):
            self.launched.append(name)

        return Grid(launch)


class Grid:
    def __init__(self, launch):
        self._launch = launch

    def __getitem__(self, grid):
        blocks = grid({"BLOCK_Q": 16, "BLOCK_K": 32}) if callable(grid) else grid
        assert all(number > 0 for number in blocks)
        return self._launch


@pytest.fixture
def launches(monkeypatch):
    stand_in = Programs()
    monkeypatch.setattr(flash_triton, "_programs", lambda q: stand_in)
    return stand_in


@CASES
def test_the_model_is_the_peak(case, launches, as_modelled):
    sizes, dtype, causal = case
    tensors = programs.tensors(sizes, dtype)[:3]
    as_modelled(KERNEL, False, tensors, causal=causal)
    assert launches.launched == ["forward"] * 2
    as_modelled(KERNEL, True, tensors, causal=causal)
    both = ["forward", "dot_rows", "query_gradient", "key_gradients"]
    assert launches.launched[2:] == both * 2


def test_a_simulated_run_needs_no_triton(monkeypatch, simulated):
    monkeypatch.setattr(flash_triton.importlib.util, "find_spec", lambda name: None)
    sizes = {"dtype": torch.bfloat16, "device": simulated.backend.device}

    def run():
        inputs = qkv(1, 8, 65536, 64, **sizes, requires_grad=True)
        attention(*inputs).sum().backward()

    known = {"B": 1, "H": 8, "N": 65536, "d": 64, "dtype": "bfloat16"}
    expected = MODEL.training.peak(gather([Source("the test", known)]), simulated.backend.kinds)
    assert simulated.run(run)[0].peak_bytes == expected


@pytest.mark.parametrize("how", ["no_grad", "no requires_grad", "training"])
def test_what_is_retained(how, launches, cpu):
    q, k, v, _ = programs.tensors((2, 3, 33, 50, 8, 4), torch.bfloat16)
    q.requires_grad_(how != "no requires_grad")
    with torch.set_grad_enabled(how != "no_grad"), window(cpu) as opened:
        out = attention(q, k, v)
    lse_bytes = 2 * 3 * 33 * 4 if how == "training" else 0
    assert opened.measurement.retained_bytes == out.nbytes + lse_bytes


def test_the_model_is_of_the_inputs_size():
    def at(N):
        sizes = {"B": 2, "H": 8, "N": N, "d": 64, "dtype": "bfloat16"}
        return MODEL.training.peak(gather([Source("the test", sizes)]))

    # Output and three gradients in bfloat16; lse and delta in float32; the loss and its gradient.
    assert at(4096) == 4 * 2 * 8 * 4096 * 64 * 2 + 2 * 2 * 8 * 4096 * 4 + 4
