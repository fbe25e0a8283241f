"""Random calls of attention as plain facts, the same on every machine. No torch.

PyTorch's choices are recorded by ``tests/null/record_attention.py`` and replayed here.
"""

import random

SEED = 2026
COUNT = 6000
BACKENDS = ("flash", "efficient", "math", "cudnn")


def questions():
    """Yields dicts of facts; ``strides`` are in elements, ``None`` stands for no mask."""
    drawn = random.Random(SEED)
    for _ in range(COUNT):
        yield _question(drawn)


def _question(drawn):
    dtype = drawn.choice(("float16",) * 4 + ("bfloat16",) * 3 + ("float32",) * 2 + ("float64",))
    B, H = drawn.choice((1, 2, 3)), drawn.choice((1, 2, 4, 6, 8))
    kv = H if drawn.random() < 0.7 else drawn.choice((1, 2, 3, 4))
    N, M = (drawn.choice((64, 64, 128, 130, 100, 7, 2, 1, 0)) for _ in "NM")
    M = N if drawn.random() < 0.5 else M
    d = drawn.choice((64, 64, 128, 128, 32, 40, 48, 72, 80, 96, 100, 160, 192, 200, 224, 256))
    d = d if drawn.random() < 0.9 else drawn.choice((1, 4, 5, 8, 63, 65, 129, 193, 255, 257, 320))
    dv = d if drawn.random() < 0.8 else drawn.choice((64, 128, 256, 36, 33))
    other = B if drawn.random() < 0.97 else 1
    trains = drawn.random() < 0.5
    tensors = [
        _tensor(drawn, shape, trains and drawn.random() < 0.8)
        for shape in ((B, H, N, d), (other, kv, M, d), (other, kv, M, dv))
    ]
    if drawn.random() < 0.03:
        tensors = [_tensor(drawn, one["shape"][1:], trains) for one in tensors]
    return {
        "dtype": dtype,
        "tensors": tensors,
        "mask": _mask(drawn, (B, H, N, M), dtype) if drawn.random() < 0.4 else None,
        "dropout": drawn.choice((0.0, 0.0, 0.0, 0.1, 0.25, 0.5, 1.0)),
        "causal": drawn.random() < 0.3,
        "gqa": kv != H and drawn.random() < 0.8,
        "setting": _setting(drawn),
    }


def _tensor(drawn, shape, grad):
    """Returns a tensor: contiguous, of permuted dims, padded rows, wide columns, or expanded."""
    kind = drawn.choice(("plain",) * 4 + ("permuted", "padded", "columns", "expanded"))
    order = list(range(len(shape)))
    if kind == "permuted":
        order[-3:-1] = reversed(order[-3:-1])
    elif kind == "columns":
        order[-2:] = reversed(order[-2:])
    strides, step = [0] * len(shape), 1
    for place in reversed(order):
        strides[place] = step
        step *= max(shape[place], 1)
        if kind == "padded" and step == max(shape[place], 1):
            step += drawn.choice((1, 4, 8))
    if kind == "expanded":
        strides[drawn.choice((0, -2))] = 0
    offset = drawn.choice((0, 0, 0, 0, 1, 4, 8))
    return {"shape": tuple(shape), "strides": tuple(strides), "offset": offset, "grad": grad}


def _mask(drawn, shape, dtype):
    B, H, N, M = shape
    wanted = drawn.choice(
        ((N, M), (1, 1, N, M), (B, 1, 1, M), (B, H, N, M), (1, H, N, M), (B, 1, N, M))
    )
    kind = drawn.choice(("bool", dtype, dtype, "float32"))
    return {"dtype": kind, **_tensor(drawn, wanted, kind != "bool" and drawn.random() < 0.2)}


def _setting(drawn):
    """Returns what is switched on, the order if the program sets one, and two more settings."""
    on = list(BACKENDS)
    if drawn.random() < 0.4:
        on = [name for name in BACKENDS if drawn.random() < 0.6]
    order = drawn.sample(BACKENDS, 4) if len(on) == 4 and drawn.random() < 0.2 else None
    if order == list(BACKENDS):  # the default, which PyTorch replaces at its first call on a Hopper
        order = None
    return {
        "on": on,
        "order": order,
        "deterministic": drawn.random() < 0.1,
        "grad": drawn.random() < 0.9,
    }
