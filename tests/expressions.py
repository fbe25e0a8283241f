"""Calls of operators with data, large and small, whose peaks are recorded on the null device.

A call is a line of ``tests/data/cuda/expressions.txt``: its inputs and the call, as text.
Their tensors hold the same numbers on every build: a PyTorch with CUDA draws others on the host.
"""

from math import prod
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: F401 - calls name it

CUDA = "cuda"
b, u8, bf, f16 = torch.bool, torch.uint8, torch.bfloat16, torch.float16
f32, f64, i32, i64 = torch.float32, torch.float64, torch.int32, torch.int64


def T(*shape, dtype=f32, rg=False):
    """Returns a tensor of the device; each third element of a mask is true."""
    numbers = torch.arange(prod(shape), device="cpu")
    if dtype is b:
        made = numbers % 3 == 0
    elif dtype.is_floating_point:
        made = (numbers % 101).to(dtype) / 10 - 5
    else:
        made = (numbers % 50).to(dtype)
    made = made.view(shape).to(CUDA)
    return made.requires_grad_() if rg else made


def inputs(text):
    """Returns the inputs of a call by name, from lines such as ``x=T(5); y=T(5)``."""
    names = {**globals(), "aten": torch.ops.aten, "nn": torch.nn}
    exec(text, names)
    return names


def result(text, names):
    torch.manual_seed(0)
    return eval(text, names)


def _read():
    file = Path(__file__).parent / "data" / "cuda" / "expressions.txt"
    for line in file.read_text("utf-8").splitlines():
        before, _, call = line.partition(";; ")
        yield before.strip(), call


CALLS = tuple(_read())
