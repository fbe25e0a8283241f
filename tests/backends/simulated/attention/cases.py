"""Calls of attention, recorded on the null device and replayed here.

A case is a mapping of the differences from ``USUAL``. ``call`` makes its tensors, on any device,
real or fake, and ``arguments`` makes the arguments of one of its operators.
"""

import itertools

import torch

USUAL = {
    "dtype": "float16",
    "B": 2,
    "H": 4,
    "Hkv": None,
    "N": 256,
    "M": None,
    "d": 64,
    "dv": None,
    "layout": "BHSD",
    "causal": False,
    "dropout": 0.0,
    "mask": None,
    "grad": True,
    "deterministic": False,
}
LAYOUTS = ("BHSD", "BSHD", "packed", "strided", "offset")
MASKS = (None, "bool", "row", "full", "grad", "columns", "key")


def tensor(make, heads, length, size, layout):
    """Returns a [B, heads, length, size] tensor of that layout; ``make`` takes a shape."""
    if layout == "BSHD":
        return make(length, heads, size).transpose(1, 2)
    if layout == "packed":
        return make(length, heads, 3 * size)[..., size : 2 * size].transpose(1, 2)
    if layout == "strided":
        return make(heads, size, length).transpose(2, 3)
    if layout == "offset":
        return make(heads, length, size + 1)[..., 1:]
    return make(heads, length, size)


def inputs(case, device):
    """Returns query, key, value and mask."""
    case = {**USUAL, **case}
    dtype, batch = getattr(torch, case["dtype"]), case["B"]
    heads, length, size, layout = case["H"], case["N"], case["d"], case["layout"]

    def make(*shape):
        return torch.empty(batch, *shape, dtype=dtype, device=device)

    kv_heads = case["Hkv"] or heads
    keys = case["M"] or length
    query = tensor(make, heads, length, size, layout)
    key = tensor(make, kv_heads, keys, size, layout)
    value = tensor(make, kv_heads, keys, case["dv"] or size, layout)
    mask = attention_mask(case["mask"], (batch, heads, length, keys), dtype, device)
    for one in (query, key, value):
        one.requires_grad_(case["grad"])
    return query, key, value, mask


def attention_mask(kind, shape, dtype, device):
    _, _, rows, columns = shape
    if kind is None:
        return None
    if kind == "bool":
        return torch.empty(rows, columns, dtype=torch.bool, device=device)
    if kind == "row":
        return torch.empty(rows, columns, dtype=dtype, device=device)
    if kind == "columns":
        return torch.empty(columns, rows, dtype=dtype, device=device).t()
    if kind == "key":
        return torch.empty(shape[0], 1, 1, columns, dtype=torch.bool, device=device)
    return torch.empty(shape, dtype=dtype, device=device, requires_grad=kind == "grad")


#: The values of each field; the questions are every combination of them, thinned.
AXES = {
    "dtype": ("float16", "bfloat16", "float32"),
    "d": (64, 32, 96, 100, 128, 192, 200, 256, 264),
    "dv": (None, 128),
    "mask": (None, None, None, *MASKS),  # the usual case, more often
    "causal": (False, True),
    "Hkv": (None, 2),
    "gqa": (False, True),
    "grad": (False, True),
    "dropout": (0.0, 0.1, 0.25),
    "lengths": ((200, 200), (1, 200), (200, 1), (128, 72)),
    "layout": ("BHSD", "BHSD", *LAYOUTS),
    "setting": (
        "all",
        "all",
        "all",
        "no flash",
        "no cudnn",
        "efficient only",
        "flash only",
        "cudnn only",
        "efficient first",
        "deterministic",
        "no grad",
        "none",
    ),
}
#: One in so many; prime, so that each value of an axis occurs with each of the others.
THINNED = 1999


def questions():
    """Yields the cases whose selected backend is recorded, in order."""
    for values in itertools.islice(itertools.product(*AXES.values()), 0, None, THINNED):
        case = dict(zip(AXES, values, strict=True))
        case["N"], case["M"] = case.pop("lengths")
        yield case


def _softmax_arguments(case, device):
    dtype = getattr(torch, case.get("dtype", "float32"))
    scores = torch.empty(case["shape"], dtype=dtype, device=device)
    scores = scores.transpose(-1, -2) if case.get("transposed") else scores
    return (scores, case.get("dim", -1), *((getattr(torch, case["to"]),) if "to" in case else ()))


def _varlen_arguments(operator, case, device):
    """Returns the arguments for concatenated sequences; N and M are total length and count."""
    case = {**USUAL, **case}
    (rows, count), heads, size = case["N"], case["H"], case["d"]
    columns, _ = case["M"] or case["N"]
    like = {"dtype": getattr(torch, case["dtype"]), "device": device}
    query = torch.empty(rows, heads, size, **like)
    key, value = (torch.empty(columns, case["Hkv"] or heads, size, **like) for _ in range(2))
    ends = [torch.empty(count + 1, dtype=torch.int32, device=device) for _ in range(2)]
    rest = (*ends, rows // count, columns // count, case["dropout"], case["causal"])
    if "backward" not in operator:
        return (query, key, value, *rest, False)
    out = torch.empty_like(query)
    lse = query.new_empty(heads, rows, dtype=torch.float32)
    return (torch.empty_like(out), query, key, value, out, lse, *rest, *_flash_random(query))


def arguments(operator, case, device):
    """Returns the operator's arguments for a case; None if it cannot take the case."""
    if "softmax" in operator:
        return _softmax_arguments(case, device)
    case = {**USUAL, **case}
    if not isinstance(case["N"], int):
        return _varlen_arguments(operator, case, device)
    flash = "flash" in operator
    if flash and (case["dtype"] == "float32" or case["mask"] or case["dv"]):
        return None
    if not flash and case["Hkv"]:
        return None
    if not flash and "scaled" not in operator and case["mask"]:
        return None
    query, key, value, _ = inputs(case, device)
    if "scaled" not in operator:
        query, key, value = (one.transpose(1, 2) for one in (query, key, value))
    give = _flash_arguments if flash else _efficient_arguments
    return give(operator, case, (query, key, value))


def _flash_arguments(operator, case, qkv):
    scaled, dropout, causal = "scaled" in operator, case["dropout"], case["causal"]
    lengths = (case["N"], case["M"] or case["N"])
    query = qkv[0]
    if "backward" not in operator:
        return (
            (*qkv, dropout, causal)
            if scaled
            else (*qkv, None, None, *lengths, dropout, causal, False)
        )
    out = torch.empty_like(query)
    lse = query.new_empty(case["B"], case["H"], case["N"], dtype=torch.float32)
    rng = _flash_random(query)
    return (torch.empty_like(out), *qkv, out, lse, None, None, *lengths, dropout, causal, *rng)


def _flash_random(query):
    return query.new_empty(2, dtype=torch.uint64), query.new_empty((), dtype=torch.uint64)


def _efficient_arguments(operator, case, qkv):
    scaled, dropout, causal = "scaled" in operator, case["dropout"], case["causal"]
    query, _, value = qkv
    batch, heads, rows, columns = case["B"], case["H"], case["N"], case["M"] or case["N"]
    bias = None
    if case["mask"]:
        bias = query.new_empty(batch, heads, rows, -(-columns // 16) * 16)[..., :columns]
    if "backward" not in operator:
        if scaled:
            return (*qkv, bias, case["grad"], dropout, causal)
        return (*qkv, None, None, None, None, None, dropout, int(causal), case["grad"])
    order = (0, 2, 1, 3) if scaled else (0, 1, 2, 3)
    out = query.new_empty(batch, rows, heads, value.shape[-1]).permute(order)
    lse = query.new_empty(batch, heads, -(-rows // 32) * 32, dtype=torch.float32)
    rng = (torch.zeros((), dtype=torch.long), torch.zeros((), dtype=torch.long))
    if scaled:
        wanted = [True, True, True, case["mask"] == "grad"]
        return (torch.empty_like(out), *qkv, bias, out, lse, *rng, dropout, wanted, causal)
    return (
        torch.empty_like(out), *qkv, None, out, None, None, rows, columns, lse, dropout, *rng,
        int(causal), False,
    )  # fmt: skip


BACKENDS = {"math": "MATH", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}


def attended():
    """Returns cases of ``scaled_dot_product_attention``, each with a requested backend."""
    cases = (
        {},
        {"layout": "BSHD"},
        {"dtype": "float32"},
        {"dtype": "bfloat16", "N": 65, "M": 130},
        {"d": 60},
        {"d": 60, "layout": "packed", "grad": False},
        {"causal": True},
        {"causal": True, "dtype": "float32", "N": 100},
        {"Hkv": 2},
        {"Hkv": 1, "B": 1, "N": 1, "M": 777},
        {"dropout": 0.25},
        {"mask": "bool"},
        {"mask": "bool", "N": 100, "dtype": "float32"},
        {"mask": "row"},
        {"mask": "row", "N": 90},
        {"mask": "key", "N": 90, "grad": False},
        {"mask": "columns", "N": 90, "M": 40},
        {"mask": "full", "d": 128, "dropout": 0.1},
        {"mask": "grad", "N": 90},
        {"mask": "grad", "dtype": "float32"},
    )
    return [(case, backend) for case in cases for backend in BACKENDS]


def call(case, device):
    """Returns the positional and keyword arguments of ``scaled_dot_product_attention``."""
    case = {**USUAL, **case}
    given = (*inputs(case, device), case["dropout"], case["causal"])
    return given, {"enable_gqa": case["Hkv"] is not None}
