"""Programs with their own kernels: Triton, compiled code, optimizers, and refused calls."""

from importlib.util import find_spec
from pathlib import Path

import pytest

TRITON = """
import torch, triton
from triton_kernel import add_one
x = torch.empty(1000, device="cuda")
out = torch.empty_like(x)
add_one[(1,)](x, out, 1000, BLOCK=1024)
torch.cuda.synchronize()
try:
    add_one[(1,)](torch.empty(1000), out, 1000, BLOCK=1024)
except ValueError as error:
    answer(torch.cuda.memory_allocated(), str(error).split("(")[0], counts.unknown_calls())
"""

COMPILED = """
import torch
from torch import nn
torch.set_float32_matmul_precision("high")
block = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 256))
block = block.cuda()
def step(f, x):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    f(x).sum().backward()
    return torch.cuda.max_memory_allocated() - before
x = torch.empty(512, 256, device="cuda", requires_grad=True)
step(block, x), step(block, x)
eager = step(block, x)
compiled = torch.compile(block)
step(compiled, x)
numbers = {step(compiled, x) for _ in range(3)}
answer(len(numbers), max(numbers) < eager, counts.unknown_calls())
"""

FLEX = """
import torch
from torch.nn.attention.flex_attention import flex_attention
q = torch.empty(1, 2, 4096, 64, device="cuda", dtype=torch.float16, requires_grad=True)
attention = torch.compile(flex_attention)
attention(q, q, q).sum().backward()
torch.cuda.reset_peak_memory_stats()
attention(q, q, q).sum().backward()
answer(torch.cuda.max_memory_allocated() < 2 * 4096 * 4096 * 2, counts.unknown_calls())
"""

STEP = """
import torch, torch.nn.functional as F
from torch import nn
for fused in (True, False):
    model = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    with torch.autocast("cuda"):
        logits = model(torch.empty(2, 128, 64, device="cuda"))
    target = torch.zeros(2 * 128, dtype=torch.long, device="cuda")
    F.cross_entropy(logits.float().view(-1, 64), target).backward()
    optimizer.step()
answer(logits.dtype == torch.float16 or str(logits.dtype), counts.unknown_calls())
"""


#: flash-linear-attention's chunked kernels, twice at each length: the first compiles them.
LINEAR = """
import torch
from pytest_attnmem.backends.null import program
program.prepare(None)
from fla.ops.linear_attn import chunk_linear_attn
def step(N):
    q, k, v = (
        torch.empty(1, N, 4, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )
    memory = torch.cuda
    before = memory.memory_allocated()
    memory.reset_peak_memory_stats()
    out, _ = chunk_linear_attn(q, k, v)
    forward = memory.max_memory_allocated() - before
    grad = torch.empty_like(out)
    kept = memory.memory_allocated()
    memory.reset_peak_memory_stats()
    out.backward(grad)
    return forward, memory.max_memory_allocated() - kept
sizes = (1024, 2048, 4096)
[step(N) for N in sizes]
answer(*(step(N) for N in sizes), counts.unknown_calls())
"""


@pytest.fixture
def caches(tmp_path):
    """Returns variables that give each test an empty cache of compiled kernels."""
    return {
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }


def test_a_triton_kernel_is_compiled_and_launched(under, caches):
    refused = "Pointer argument cannot be accessed from Triton "
    assert under(TRITON, **caches) == (2 * 4096, refused, {})


def test_a_compiled_block_takes_less_than_an_eager_one(under, caches):
    assert under(COMPILED, **caches) == (1, True, {})


def test_compiled_flex_attention_holds_no_scores(under, caches):
    assert under(FLEX, **caches) == (True, {})


def test_a_training_step_with_autocast_and_adamw_runs(under):
    assert under(STEP)[1] == {}


def test_capturing_a_graph_fails_as_unsupported_and_is_told(under):
    script = """
import torch
x = torch.empty(10, device="cuda")
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x + 1
except RuntimeError as error:
    answer(str(error).splitlines()[0], counts.unknown_calls()["cudaStreamBeginCapture"])
"""
    assert under(script) == ("CUDA error: operation not supported", 1)


def test_a_kernel_that_pytorch_compiles_when_it_is_first_used_is_no_unknown_call(under):
    script = """
import torch
torch.empty(4, 4, dtype=torch.complex64, device="cuda").prod()
answer(counts.unknown_calls())
"""
    assert under(script, USE_PYTORCH_KERNEL_CACHE="0") == ({},)


def test_a_call_without_an_answer_fails_and_is_counted(under):
    script = """
import ctypes
cuda = ctypes.CDLL(None)
codes = [cuda.cudaIpcGetMemHandle(None, None), cuda.cudaIpcGetMemHandle(None, None),
         cuda.cudaProfilerStart(), cuda.cublasSgemm_v2(), cuda.cuMulticastCreate(None, None)]
answer(codes, counts.unknown_calls())
"""
    counted = {"cuMulticastCreate": 1, "cudaIpcGetMemHandle": 2}
    assert under(script) == ([801, 801, 0, 0, 801], counted)


def test_programs_without_cuda_run_with_it_preloaded(under):
    script = """
import subprocess
at_once = {**os.environ, "LD_BIND_NOW": "1"}
answer(subprocess.run(["/bin/sh", "-c", "cat /dev/null | sort"], env=at_once).returncode)
"""
    assert under(script) == (0,)


def test_nothing_is_written_but_what_the_program_writes(under, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    script = "import torch; torch.empty(8, 8, device='cuda'); answer(os.getcwd())"
    under(script, HOME=str(home), TMPDIR=str(home))
    assert list(Path(home).iterdir()) == []


@pytest.mark.skipif(find_spec("fla") is None, reason="flash-linear-attention is not installed")
def test_somebody_elses_triton_kernels_run_forward_and_backward(under, caches):
    *steps, unknown = under(LINEAR, "H100", **caches)
    assert unknown == {}
    short, middle, long = ((forward, backward) for forward, backward in steps)
    assert middle[0] == 8 * 2**20  # at 2048 tokens
    for at in (0, 1):  # second differences are zero: each is a straight line
        assert long[at] - middle[at] == 2 * (middle[at] - short[at])
