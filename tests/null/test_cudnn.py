"""cuDNN's own plans on the null device: their workspaces, and the file that remembers them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

MEASURE = """
import ctypes
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
plans = ctypes.c_ulong.in_dll(ctypes.CDLL(None), "attnmem_null_cudnn_plans")
def peak(call):
    now = lambda kind: torch.cuda.memory_stats()[f"requested_bytes.all.{kind}"]
    torch.cuda.reset_peak_memory_stats()
    before = now("current")
    kept = call()
    return now("peak") - before, kept
"""

ATTENTION = (
    MEASURE
    + """
def attend(B, H, N, d, M=None, Hkv=None, dv=None, mask=None, rows_first=False, half="bfloat16",
           **options):
    M, Hkv, dv = M or N, Hkv or H, dv or d
    on = {"device": "cuda", "dtype": getattr(torch, half)}
    shapes = ((B, H, N, d), (B, Hkv, M, d), (B, Hkv, M, dv))
    q, k, v = (
        (torch.empty(b, n, h, d, **on).transpose(1, 2) if rows_first
         else torch.empty(b, h, n, d, **on)).detach().requires_grad_() for b, h, n, d in shapes
    )
    if mask:
        options["attn_mask"] = torch.ones(N, M, device="cuda").to(getattr(torch, mask))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        forward, out = peak(lambda: F.scaled_dot_product_attention(
            q, k, v, enable_gqa=H != Hkv, **options))
    grad = torch.empty_like(out)
    backward, _ = peak(lambda: out.backward(grad))
    of_inputs = q.nbytes + k.nbytes + v.nbytes
    # output, statistics and the state of random numbers; gradients
    return forward - out.nbytes - 4 * B * H * N - 16, backward - of_inputs
answer(*(attend(*shape, **options) for shape, options in CASES), counts.unknown_calls())
"""
)

B, H, N, d = 2, 4, 512, 64
HOPPER = 4 * B * H * N * d + 4 * B * H * N + 256
#: Shapes, options, and the workspaces of forward and backward on an H100, in bytes.
ON_HOPPER = (
    ((B, H, N, d), {}, 256, HOPPER),
    ((B, H, N, d), {"is_causal": True, "half": "float16", "rows_first": True}, 256, HOPPER),
    ((B, H, N, d), {"M": 1024, "dv": 128}, 256, HOPPER),
    ((B, H, N, d), {"Hkv": 2}, 256, HOPPER + 2 * B * H * N * (d + d)),
    # PyTorch makes a float mask of the bool one
    ((B, H, N, d), {"mask": "bool"}, 256 + 2 * N * N, HOPPER),
    ((B, H, N, d), {"mask": "bfloat16"}, 256, HOPPER),
    ((1, 2, 200, 256), {}, 256, 4 * 2 * 200 * 256 + 4 * 2 * 200 + 256),
)
#: The same on a B200.
ON_BLACKWELL = (
    ((B, H, N, d), {}, 0, 4 * B * H * N * d + 4 * B * H * N),
    ((B, H, N, d), {"Hkv": 2}, 0, HOPPER - 128 + 2 * B * H * N * (d + d)),
)


@pytest.mark.parametrize(("device", "cases"), [("H100", ON_HOPPER), ("B200", ON_BLACKWELL)])
def test_attention_has_the_workspaces_that_cudnn_plans(under, device, cases):
    asked = [(shape, options) for shape, options, *_ in cases]
    *found, unknown = under(f"CASES = {asked!r}" + ATTENTION, device)
    assert found == [list(workspaces) for _, _, *workspaces in cases]
    assert unknown == {}


CONVOLUTION = (
    MEASURE
    + """
from pytest_attnmem.backends.null import program
program.prepare(10**10)
def same(make, *shape, dtype=torch.float32, last=False):
    torch.manual_seed(0)
    layer, x = make(), torch.randn(*shape)
    other, y = make().cuda().to(dtype), x.cuda().to(dtype)
    other.load_state_dict(layer.state_dict())
    if last:
        other, y = (it.to(memory_format=torch.channels_last) for it in (other, y))
    results = []
    for module, given in ((layer, x), (other, y)):
        out = module(given.requires_grad_())
        grads = torch.autograd.grad(out, [given, *module.parameters()], torch.ones_like(out))
        results.append([one.float().cpu() for one in (out, *grads)])
    bound = 1e-3 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(results[1], results[0], atol=bound * 10, rtol=bound)
same(lambda: nn.Conv1d(4, 6, 3), 2, 4, 20)
same(lambda: nn.Conv2d(4, 6, 3, groups=2, dilation=2), 2, 4, 12, 12)
same(lambda: nn.Conv2d(8, 8, 3, padding=1), 2, 8, 12, 12, dtype=torch.half, last=True)
same(lambda: nn.Conv2d(8, 8, 3, groups=8), 2, 8, 12, 12, dtype=torch.bfloat16, last=True)
same(lambda: nn.ConvTranspose2d(8, 6, 3, 2, output_padding=1), 2, 8, 5, 5)
same(lambda: nn.Conv3d(3, 4, 3), 1, 3, 6, 6, 6)
layer, x = nn.Conv2d(8, 16, 3, device="cuda"), torch.zeros(2, 8, 24, 24, device="cuda")
ranked = peak(lambda: layer(x))[0]
torch.backends.cudnn.benchmark = True
timed = [peak(lambda: layer(x))[0] for _ in range(2)]
answer(timed[0] >= timed[1], timed[1] == ranked, counts.unknown_calls())
"""
)


def test_convolutions_are_planned_and_their_values_known(under):
    """In a benchmark no plan is faster, so PyTorch keeps the one that cuDNN ranks first."""
    assert under(CONVOLUTION) == (True, True, {})


#: Answers the plans that the library made, and workspaces.
REMEMBERED = (
    MEASURE
    + """
x = torch.zeros(2, 8, 24, 24, device="cuda", requires_grad=True)
layer = nn.Conv2d(8, 16, 5, device="cuda")
forward, out = peak(lambda: layer(x))
grad = torch.zeros_like(out)
backward, _ = peak(lambda: out.backward(grad))
answer(plans.value, forward, backward)
"""
)


def test_processes_at_once_share_a_file_for_each_setting_and_need_none(under, tmp_path):
    def run(folder):
        return under(REMEMBERED, ATTNMEM_NULL_PLANS=folder)[1:]

    shared = str(tmp_path)
    with ThreadPoolExecutor(5) as pool:
        other = pool.submit(under, REMEMBERED, ATTNMEM_NULL_PLANS=shared, NVIDIA_TF32_OVERRIDE="0")
        found = {*pool.map(run, [shared, shared, "/dev/null/plans", ""])}
    assert len(found) == 1
    assert other.result()[0] > 0  # plans that the library made
    assert len([*tmp_path.iterdir()]) == 2
    assert under(REMEMBERED, ATTNMEM_NULL_PLANS=shared) == (0, *found.pop())
