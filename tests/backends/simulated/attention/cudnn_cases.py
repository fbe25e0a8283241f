"""Calls of cuDNN's attention, drawn from fixed seeds, and the memory that each of them takes."""

import random

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

LENGTHS = (1, 2, 16, 64, 100, 128, 200, 255, 256, 512, 777, 1024, 2048)
MANY_KEYS = (
    *(2, 17, 64, 128, 129, 255, 256, 300, 512, 1000, 1024, 1536, 2048, 3000, 4096, 8192, 10000),
    *(16384, 32768, 65536),
)
SIZES = (8, 16, 40, 64, 64, 72, 80, 96, 128, 128, 160, 192, 256)
MASKS = ("bNM", "b1NM", "fNM", "f1NM", "fBHNM", "bBHNM", "fB11M", "bB11M")
DTYPES = ("bfloat16", "float16")


def calls():
    """Returns all calls: usual sizes, any sizes, and few queries with many keys."""
    usual, anywhere, decoding = random.Random(1), random.Random(4), random.Random(3)
    drawn = [
        *(_usual(usual) for _ in range(250)),
        *(_anywhere(anywhere) for _ in range(150)),
        *(_decoding(decoding) for _ in range(250)),
    ]
    return [call for call in drawn if not _crashes(call)]


def _crashes(call):
    """Returns True if PyTorch 2.15 may crash: in the backward of one query of one head."""
    return call["train"] and call["B"] == call["H"] == call["N"] == 1


def _usual(draw):
    heads = _heads(draw, (1, 2, 4, 8, 12, 16))
    N = draw.choice(LENGTHS)
    rows = {"N": N, "M": draw.choice((N, N, N, N, 128, 300, 1024, 4096))}
    return _drawn(draw, heads | rows | _sizes(draw), (1, 1, 2, 3, 4, 8), 0.75)


def _decoding(draw):
    heads = _heads(draw, (1, 2, 4, 8, 12, 16, 32, 64))
    rows = {"N": draw.choice((1, 1, 1, 1, 2, 8)), "M": draw.choice(MANY_KEYS)}
    return _drawn(draw, heads | rows | _sizes(draw), (1, 1, 2, 3, 4, 8, 16, 32), 0.3)


def _anywhere(draw):
    heads = draw.randint(1, 16)
    drawn = {"H": heads * draw.choice((1, 1, 1, 1, 2, 3, 4, 8)), "Hkv": heads}
    N = min(draw.randint(1, 5000), draw.randint(1, 5000))
    drawn["N"] = N
    drawn["M"] = draw.choice([N, N, min(draw.randint(1, 5000), draw.randint(1, 5000))])
    d = 8 * draw.randint(1, 32) if draw.random() < 0.5 else 8 * draw.randint(1, 16)
    sizes = {"d": d, "dv": draw.choice([d] * 6 + [8 * draw.randint(1, max(1, d // 8))])}
    return _drawn(draw, drawn | sizes, (1, 1, 2, 3, 5, 8), 0.75, plain=6)


def _heads(draw, choices):
    heads = draw.choice(choices)
    groups = draw.choice((1, 1, 1, 2, 4))
    return {"H": heads, "Hkv": heads if heads % groups else heads // groups}


def _sizes(draw):
    d = draw.choice(SIZES)
    return {"d": d, "dv": draw.choice((d, d, d, d, d, d, 64, 128))}


def _drawn(draw, shape, batches, training, plain=5):
    """Adds the other arguments; of ``plain`` + 8 calls, ``plain`` have no mask."""
    mask = draw.choice(("",) * plain + MASKS)
    return {
        "B": draw.choice(batches),
        **shape,
        "dtype": draw.choice(DTYPES),
        "train": draw.random() < training,
        "layout": draw.choice(("bhnd", "bnhd")),
        "mask": mask,
        "causal": False if mask else draw.random() < 0.4,
        "dropout": draw.choice((*7 * (0.0,), 0.125)),
    }


def peaks(call):
    """Runs a call on ``cuda``; returns the bytes above those of before, and the output's strides.

    The bytes are the peak of forward, those that stay, and the peak of backward, or None. Returns
    None if PyTorch does not give the call to cuDNN, and ``"no plan"`` if cuDNN then refuses it.
    """
    statistics, train = torch.cuda.memory_stats, call["train"]
    query, key, value, mask = inputs(call, "cuda")
    before = statistics()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    options = {"is_causal": call["causal"], "dropout_p": call["dropout"]}
    try:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            out = scaled_dot_product_attention(
                query, key, value, mask, **options, enable_gqa=call["H"] != call["Hkv"]
            )
    except RuntimeError as error:
        return None if "No available kernel" in str(error) else "no plan"
    forward = statistics()["requested_bytes.all.peak"] - before
    kept = statistics()["requested_bytes.all.current"] - before
    grad, backward = torch.empty_like(out), None
    if train:
        before = statistics()["requested_bytes.all.current"]
        torch.cuda.reset_peak_memory_stats()
        try:
            out.backward(grad)
        except RuntimeError:
            return "no plan"
        backward = statistics()["requested_bytes.all.peak"] - before
    return [forward, kept, backward, list(out.stride())]


def inputs(call, device):
    """Returns query, key, value and the mask of a call."""
    B, H, heads, N, M = (call[name] for name in ("B", "H", "Hkv", "N", "M"))
    dtype = getattr(torch, call["dtype"])

    def make(heads, rows, size):
        if call["layout"] == "bnhd":
            made = torch.empty(B, rows, heads, size, device=device, dtype=dtype).transpose(1, 2)
        else:
            made = torch.empty(B, heads, rows, size, device=device, dtype=dtype)
        return made.detach().requires_grad_(call["train"])

    qkv = make(H, N, call["d"]), make(heads, M, call["d"]), make(heads, M, call["dv"])
    return *qkv, _mask(call["mask"], (B, H, N, M), dtype, device)


def _mask(kind, shape, dtype, device):
    """Returns a mask; the first letter is its dtype, and the others its dimensions."""
    if not kind:
        return None
    B, _, N, M = shape
    sizes = {"NM": (N, M), "1NM": (B, 1, N, M), "BHNM": shape, "B11M": (B, 1, 1, M)}[kind[1:]]
    if kind[0] == "b":
        return torch.ones(sizes, device=device, dtype=torch.bool)
    return torch.zeros(sizes, device=device, dtype=dtype)
