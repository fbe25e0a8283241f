"""The attention backend that a device selects, and the allocations of each backend as formulas."""

import pytest
import torch

from pytest_attnmem.torch_releases import minor_version

COLUMNS = (
    {},
    {"mask": True},
    {"Hkv": 2},
    {"d": 256},
    {"d": 288},
    {"dtype": "bfloat16"},
    {"dtype": "float32"},
    {"dtype": "float32", "Hkv": 2},
)
#: Efficient attention takes groups of heads, and keeps 16 bytes of unused random state.
SINCE_2_14 = minor_version(torch.__version__) >= (2, 14)
OLDER, AMPERE = "eemeemem", "feffefem"
#: The published table: efficient, math, flash or cuDNN, a letter for each of the columns.
TAKEN = {
    "GTX 1080": OLDER,
    "V100": OLDER,
    "T4": OLDER,
    "A100-40GB": AMPERE,
    "A100-80GB": AMPERE,
    "A10G": AMPERE,
    "L4": AMPERE,
    "RTX 4090": AMPERE,
    "H100": "ccccecem",
    "B200": "cccfecem",
}
CHOICE = """
import torch
letters = []
for column in COLUMNS:
    dtype = getattr(torch, column.get("dtype", "float16"))
    heads, d = column.get("Hkv", 4), column.get("d", 64)
    query = torch.empty(2, 4, 512, d, dtype=dtype, device="cuda")
    key = torch.empty(2, heads, 512, d, dtype=dtype, device="cuda")
    mask = torch.empty(512, 512, dtype=dtype, device="cuda") if "mask" in column else None
    taken = torch._fused_sdp_choice(query, key, key, mask, enable_gqa=heads < 4)
    letters.append("mfec"[taken])
able = torch.cuda.get_device_capability() >= (9, 0)
answer("".join(letters), torch.backends.cudnn.version() if able else 0)
"""
CUDNN_LEADS = 91500  # from the version after it on


@pytest.mark.parametrize("device", TAKEN)
def test_the_backend_taken_by_default(under, device):
    taken, cudnn = under(f"COLUMNS = {COLUMNS!r}" + CHOICE, device)
    expected = "".join(
        "e" if SINCE_2_14 and letter == "m" and "Hkv" in column else letter
        for letter, column in zip(TAKEN[device], COLUMNS, strict=True)
    )
    if SINCE_2_14 and device == "B200":  # whose cuDNN takes wide heads
        expected = expected.replace("f", "c")
    if cudnn > CUDNN_LEADS:
        assert taken == expected
    else:
        told = zip(taken, expected, strict=True)
        assert [mine for mine, real in told if real != "c"] == [*expected.replace("c", "")]


USE = """
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
def empty(heads, length, d, bshd):
    shape = (B, length, heads, d) if bshd else (B, heads, length, d)
    made = torch.empty(shape, dtype=getattr(torch, dtype), device="cuda", requires_grad=True)
    return made.transpose(1, 2) if bshd else made
def used(call):
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    result = call()
    stats = torch.cuda.memory_stats()
    kept, peak = (stats[f"requested_bytes.all.{name}"] - before for name in ("current", "peak"))
    return result, kept, peak
def main(backend, Hkv, N, M, d, bshd=False):
    one = torch.ones(2, 2, device="cuda", requires_grad=True)
    (one @ one).sum().backward()  # cuBLAS has its workspaces now
    tensors = empty(H, N, d, bshd), empty(Hkv, M, d, bshd), empty(Hkv, M, d, bshd)
    with sdpa_kernel([getattr(SDPBackend, backend)]):
        attend = lambda: F.scaled_dot_product_attention(*tensors, enable_gqa=Hkv < H)
        out, kept, forward = used(attend)
    grad = torch.empty_like(out)
    wanted = lambda: torch.autograd.grad(out, tensors, grad, retain_graph=True)
    _, _, backward = used(wanted)
    answer(kept, forward, backward)
"""


def use(under, device, backend, B, H, N, d, dtype="float16", M=None, Hkv=None, bshd=False):
    """Returns the bytes kept by forward, its peak, and the peak that backward adds."""
    sizes = f"B, H, dtype = {B}, {H}, {dtype!r}\n"
    call = f"main({backend!r}, {Hkv or H}, {N}, {M or N}, {d}, {bshd})"
    return under(sizes + USE + call, device)


def up(size, step):
    return -(-size // step) * step


FLASH = [
    {"B": 2, "H": 16, "N": 2048, "d": 128},
    {"B": 2, "H": 16, "N": 2048, "d": 128, "Hkv": 4},
    {"B": 2, "H": 16, "N": 2048, "d": 128, "bshd": True},
    {"B": 8, "H": 16, "N": 1025, "d": 80, "dtype": "bfloat16"},
    {"B": 2, "H": 64, "N": 640, "d": 192},
]


@pytest.mark.parametrize("device", ["A100-80GB", "H100"])
@pytest.mark.parametrize("sizes", FLASH, ids=str)
def test_flash(under, device, sizes):
    """Forward: output, log-sum-exp and random state. Backward: also dq_accum and softmax_d."""
    B, H, N, d = (sizes[name] for name in "BHNd")
    Hkv, rows = sizes.get("Hkv", H), up(N, 128)
    kept, forward, backward = use(under, device, "FLASH_ATTENTION", **sizes)
    assert kept == forward == 2 * B * H * N * d + 4 * B * H * N + 16 + 8
    wide = up(d, 32) if d <= 128 else up(d, 64)
    gradients = 2 * B * (H + 2 * Hkv) * N * d
    expanded = 2 * 2 * B * H * N * d if Hkv < H else 0
    copies = 0 if sizes.get("bshd") else 2 * 2 * B * H * N * d
    assert backward == gradients + 4 * B * H * rows * (1 + wide) + expanded + copies


def test_flash_backward_is_what_was_published(under):
    """research: 117,702,656 B, and with four heads of keys 126,091,264 B."""
    one, grouped = (use(under, "A100-80GB", "FLASH_ATTENTION", **sizes)[2] for sizes in FLASH[:2])
    assert (one, grouped) == (117_702_656, 126_091_264)


@pytest.mark.parametrize(("device", "parts"), [("A100-80GB", 4), ("H100", 2)])
def test_flash_splits_keys_to_keep_a_device_busy(under, device, parts):
    B, H, N, d = 1, 8, 1000, 64
    kept, forward, _ = use(under, device, "FLASH_ATTENTION", B, H, N, d)
    assert kept == 2 * B * H * N * d + 4 * B * H * N + 24
    assert forward - kept == parts * 4 * B * H * N * (1 + d)


BLOCKS = {  # queries and keys a block, of efficient attention's backward
    ("A100-80GB", 2, 128): (128, 128),
    ("A100-80GB", 2, 64): (64, 64),
    ("A100-80GB", 4, 64): (64, 64),
    ("T4", 2, 64): (64, 64),
    ("H100", 2, 128): (128, 128),
    ("H100", 4, 64): (64, 64),
}


@pytest.mark.parametrize(("device", "itemsize", "d"), BLOCKS)
@pytest.mark.parametrize("N", [2048, 1000])
def test_efficient(under, device, itemsize, d, N):
    """Forward: output and log-sum-exp, padded. Backward: row sums, and dQ by blocks."""
    B, H, dtype = 2, 16, {2: "float16", 4: "float32"}[itemsize]
    kept, forward, backward = use(under, device, "EFFICIENT_ATTENTION", B, H, N, d, dtype)
    state = 16 if SINCE_2_14 else 0
    assert kept == forward == itemsize * B * H * N * d + 4 * B * H * up(N, 32) + state
    rows, columns = BLOCKS[device, itemsize, d]
    blocks = -(-N // rows) * -(-d // columns)
    tensor, sums = B * H * N * d, 4 * B * H * N
    workspace = B * H * blocks * (16 + 4 * rows * columns)
    # In float, the product for the row sums is freed before the workspace is allocated.
    product = 4 * tensor + sums if itemsize == 4 else 0
    assert backward == 3 * itemsize * tensor + sums + max(workspace, product)


@pytest.mark.parametrize("device", ["A100-80GB", "T4"])
def test_math(under, device):
    """Halves are widened; scores, weights and those cast back are whole matrices."""
    B, H, N, d = 2, 4, 1024, 64
    kept, forward, backward = use(under, device, "MATH", B, H, N, d)
    tensor, scores = B * H * N * d, B * H * N * N
    assert kept == 3 * 4 * tensor + 4 * scores + 2 * tensor
    widened = 5 * 4 * tensor
    assert forward == widened + 8 * scores + scores + B * H * N + 4
    # The gradients of V and of the softmax of the scores: in, out, and their product.
    assert backward == 4 * tensor + 3 * 4 * scores
