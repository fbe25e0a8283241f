"""PyTorch's allocator under the null runtime against published facts, to the byte."""

import pytest
import torch
from recordings import read

from pytest_attnmem.torch_releases import minor_version

#: Written by ``record.py``; another null runtime measured the numbers of 2.13 first.
RECORDED = read("workloads")["peaks"]

LINEAR_LAYER = """
import torch
layer, x = torch.nn.Linear(64, 64, device="cuda"), torch.empty(8, 64, device="cuda")
x.requires_grad_()
before = torch.cuda.memory_allocated()
y = layer(x)
forward = torch.cuda.memory_allocated() - before - 8 * 64 * 4
loss = y.sum()
before_backward = torch.cuda.memory_allocated()
loss.backward()
grads = sum(p.grad.untyped_storage().nbytes() for p in (x, *layer.parameters()))
# Gradients are multiples of 512 B, but for the bias's 256 B, which take a block of 512.
backward = torch.cuda.memory_allocated() - before_backward - grads - 256 + forward
held = torch.cuda.memory_allocated()
torch._C._cuda_clearCublasWorkspaces()
answer(forward, backward, backward - (held - torch.cuda.memory_allocated()))
"""


@pytest.mark.parametrize(
    "row", RECORDED, ids=[f"{row['device']}-{row['workload']}" for row in RECORDED]
)
def test_the_recorded_peaks_come_out(under, row):
    script = f"import workloads; answer(*workloads.peaks({row['workload']!r}))"
    found = under(script, row["device"])
    assert found == tuple(row[kind] for kind in ("requested", "allocated", "reserved"))


@pytest.mark.parametrize(
    ("device", "workspace"),
    [
        pytest.param("A10G", 8_519_680, id="sm86"),  # as pytorch#95668 saw on a real one
        pytest.param("GTX 1080", 8_519_680, id="sm61"),
        pytest.param("H100", 33_554_432, id="sm90"),
        pytest.param("B200", 33_554_432, id="sm100"),
    ],
)
def test_each_thread_holds_a_workspace_until_they_are_cleared(under, device, workspace):
    kept = under(LINEAR_LAYER, device, TORCH_CUBLAS_WORKSPACE_CACHE="1")
    assert kept == (workspace, 2 * workspace, 0)


def test_fifty_steps_in_one_process_give_one_number(under):
    script = """
import torch, workloads
workloads.peaks("naive_fp32")  # makes the workspaces
numbers = set()
for _ in range(50):
    torch.cuda.empty_cache()
    numbers.add(tuple(workloads.peaks("naive_fp32")))
answer(len(numbers))
"""
    assert under(script) == (1,)


ATTENTION = """
import torch
from torch.nn.functional import scaled_dot_product_attention
half, bf16, single = torch.float16, torch.bfloat16, torch.float32
def choice(dtype, d=64, mask=False, grouped=False):
    q = torch.empty(2, 8, 512, d, device="cuda", dtype=dtype)
    k = q[:, :2] if grouped else q
    mask = torch.empty(512, 512, device="cuda", dtype=dtype) if mask else None
    number = torch._fused_sdp_choice(q, k, k, mask, enable_gqa=grouped)
    return {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}[number]
answer(choice(half), choice(half, mask=True), choice(half, grouped=True), choice(half, 256),
       choice(half, 288), choice(bf16), choice(single), choice(single, grouped=True))
"""
OLD = ("efficient", "efficient", "math", "efficient", "efficient", "math", "efficient", "math")
NEW = ("flash", "efficient", "flash", "flash", "efficient", "flash", "efficient", "math")
SM_90 = ("cudnn", "cudnn", "cudnn", "cudnn", "efficient", "cudnn", "efficient", "math")
SM_100 = ("cudnn", "cudnn", "cudnn", "flash", "efficient", "cudnn", "efficient", "math")


@pytest.mark.parametrize(
    ("device", "choices"),
    [
        *((name, OLD) for name in ("GTX 1080", "V100", "T4")),
        *((name, NEW) for name in ("A100-40GB", "A10G", "RTX 4090")),
        ("H100", SM_90),
        ("B200", SM_100),
    ],
)
def test_attention_takes_the_backend_of_the_published_table(under, device, choices):
    if minor_version(torch.__version__) >= (2, 14):  # whose efficient attention takes groups
        grouped = (2, 7)
        choices = tuple(
            "efficient" if choice == "math" and column in grouped else choice
            for column, choice in enumerate(choices)
        )
        if device == "B200":  # whose cuDNN takes wide heads
            choices = (*choices[:3], "cudnn", *choices[4:])
    assert under(ATTENTION, device) == choices


#: MiB on an A100-40GB in 2022 and here: the operators are those of another PyTorch.
TABLE_21 = {512: (336, 336), 1024: (1184, 1168), 2048: (4416, 4368), 4096: (17024, 16912)}


@pytest.mark.parametrize("N", TABLE_21)
def test_standard_attention_is_within_two_percent_of_the_flash_papers_table(under, N):
    published, here = TABLE_21[N]
    script = f"import workloads; answer(*workloads.peaks('flash_paper_{N}'))"
    requested, *_ = under(script, "A100-40GB", TORCH_CUBLAS_WORKSPACE_CACHE="1")
    assert requested // 2**20 == here
    assert 50 * abs(here - published) <= published


def test_and_runs_out_of_memory_where_it_did(under):
    script = """
import torch, workloads
try:
    workloads.flash_paper(8192)
except torch.OutOfMemoryError:
    answer("OOM")
"""
    assert under(script, "A100-40GB") == ("OOM",)
