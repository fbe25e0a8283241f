"""FlashAttention-2 in Triton: its results by Triton's interpreter, and what it says without one."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest
import torch

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.kernels import flash_triton
from pytest_attnmem.kernels.flash_triton import MODEL, attention
from pytest_attnmem.kernels.reference import standard_attention
from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.symbols.attention_shape import Source, gather

from . import flash_triton_program as program

TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
CASES = pytest.mark.parametrize("case", program.CASES, ids=str)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The interpreter's result of every case."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    destination = tmp_path_factory.mktemp("triton") / "results.pt"
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, program.__file__, str(destination)],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return torch.load(destination, weights_only=False)


@CASES
def test_forward(case, results):
    sizes, dtype, causal = case
    q, k, v, _ = (x.double().numpy() for x in program.tensors(sizes, dtype))
    expected = torch.as_tensor(standard_attention(q, k, v, causal=causal)[0])
    out = results[case]["computed"][0][0]
    assert out.dtype == dtype
    assert (out.double() - expected).abs().max() <= TOLERANCE[dtype]


def gradients(sizes, dtype, causal, scale=None):
    """Those of standard attention, in float64."""
    *qkv, weights = (x.double() for x in program.tensors(sizes, dtype))
    q, k, v = leaves = [x.requires_grad_() for x in qkv]
    scores = q @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        future = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    return torch.autograd.grad((scores.softmax(-1) @ v * weights).sum(), leaves)


def held(got, expected, tolerance):
    for one, other in zip(got, expected, strict=True):
        size = max(1, float(other.abs().max()))
        assert (one.double() - other).abs().max() <= tolerance * size


@CASES
def test_gradients(case, results):
    got = results[case]["computed"][0][1:]
    assert {x.dtype for x in got} == {case[1]}
    held(got, gradients(*case), TOLERANCE[case[1]])


@CASES
def test_lse_is_saved_beside_inputs_and_output(case, results):
    sizes, dtype, causal = case
    (lse,) = results[case]["computed"][1]
    q, k, *_ = (x.double() for x in program.tensors(sizes, dtype))
    scores = q @ k.mT * q.shape[3] ** -0.5
    if causal:
        scores.masked_fill_(torch.ones(scores.shape[2:], dtype=torch.bool).triu(1), -torch.inf)
    assert lse.dtype == torch.float32
    assert (lse.double() - scores.logsumexp(-1)).abs().max() <= 1e-5


@CASES
def test_two_runs_are_equal_to_the_bit_and_all_is_written(case, results):
    # The second starts from NaN where nothing is written.
    pairs = zip(results[case]["computed"][0], results[case]["again"], strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_options_and_layouts(results):
    sizes, dtype, _ = case = program.CASES[-1]
    q, k, v, _ = (x.double().numpy() for x in program.tensors(sizes, dtype))
    out, *got = results["scale"]
    expected = torch.as_tensor(standard_attention(q, k, v, scale=0.7)[0])
    assert (out.double() - expected).abs().max() <= TOLERANCE[dtype]
    held(got, gradients(sizes, dtype, False, 0.7), TOLERANCE[dtype])
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


@pytest.mark.parametrize(
    ("shapes", "dtype", "message"),
    [
        (
            [(1, 1, 3, 2)] * 3,
            torch.float64,
            "q must be of one of torch.float16, torch.bfloat16, torch.float32 in flash-triton, got"
            " torch.float64",
        ),
        ([(1, 1, 3, 257)] * 3, torch.float32, "d must be 1 to 256 in flash-triton, got 257"),
        (
            [(1, 1, 3, 2), (1, 1, 3, 2), (1, 1, 3, 300)],
            torch.float32,
            "dv must be 1 to 256 in flash-triton, got 300",
        ),
        (
            [(1, 1, 3, 2), (1, 1, 3, 2), (1, 1, 3, 0)],
            torch.float32,
            "dv must be 1 to 256 in flash-triton, got 0",
        ),
        (
            [(1, 1, 3, 2), (1, 1, 2**30, 2), (1, 1, 2**30, 2)],
            torch.float32,
            "a head of k must have less than 2**31 elements in flash-triton, got [1073741824, 2]",
        ),
    ],
)
def test_what_it_does_not_take(shapes, dtype, message):
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
def programs(monkeypatch):
    stand_in = Programs()
    monkeypatch.setattr(flash_triton, "_programs", lambda q: stand_in)
    return stand_in


@CASES
@pytest.mark.parametrize("trace", [False, True], ids=["measured", "program"])
def test_the_model_is_the_peak(case, trace, programs, peak, cpu):
    (B, H, N, M, d, dv), dtype, causal = case
    sizes = {"B": B, "H": H, "N": N, "M": M, "d": d, "dv": dv, "dtype": dtype, "causal": causal}
    shape = gather([Source("the test", sizes)])
    leaves = [x.requires_grad_() for x in program.tensors(case[0], dtype)[:3]]

    def forward():
        with torch.no_grad():
            return attention(*leaves, causal=causal)

    assert peak(forward, trace=trace) == MODEL.forward.peak(shape, cpu.kinds)
    assert programs.launched == ["forward"]
    training = peak(lambda: attention(*leaves, causal=causal).sum().backward(), trace=trace)
    assert training == MODEL.training.peak(shape, cpu.kinds)
    assert programs.launched[2:] == ["dot_rows", "query_gradient", "key_gradients"]


def test_a_simulated_run_needs_no_triton(monkeypatch):
    monkeypatch.setattr(flash_triton.importlib.util, "find_spec", lambda name: None)
    backend = open_backend("simulated:H100")
    with backend.world():
        q, k, v = (
            torch.empty(1, 8, 65536, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            for _ in "qkv"
        )
        measured, _ = PrimedBackend(backend, 0).run(lambda: attention(q, k, v).sum().backward())
    sizes = {"B": 1, "H": 8, "N": 65536, "d": 64, "dtype": "bfloat16"}
    expected = MODEL.training.peak(gather([Source("the test", sizes)]), backend.kinds)
    assert measured.peak_bytes == expected


@pytest.mark.parametrize("how", ["no_grad", "no requires_grad", "training"])
def test_what_is_retained(how, programs, cpu):
    q, k, v, _ = program.tensors((2, 3, 33, 50, 8, 4), torch.bfloat16)
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
