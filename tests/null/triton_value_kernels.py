"""Kernels whose values Triton's interpreter computes, and some that it cannot."""

import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import tanh

exp = tl.exp


@triton.jit
def halved(x):
    return x * 0.5


@triton.jit
def squashed(x):
    return exp(tanh(halved(x).to(tl.float32))) + libdevice.pow(x.to(tl.float32), 2.0)


@triton.jit
def elementwise(x, out, n, scale, doubled, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    a = squashed(a * a + a) * scale.to(tl.float32)
    if doubled:
        a = a * 2
    tl.store(out + i, a, mask=i < n)


@triton.jit
def rows(x, out, n, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + tl.program_id(0) * stride + i, mask=i < n, other=0.0)
    a = a / tl.sum(a * a, 0) + tl.max(a, 0) + tl.cumsum(a, 0).to(a.dtype)
    tl.store(out + tl.program_id(0) * n + i, a, mask=i < n)


@triton.jit
def product(a, b, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    found = tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j))
    tl.store(out + i * N + j, found.to(out.dtype.element_ty))


@triton.jit
def counted(x, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + i), 0))
    tl.store(x + i, tl.load(x + i) + 1)


@triton.jit
def of_parts(parts, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(parts[0] + i) - tl.load(parts[1] + i))


@triton.jit
def reinterpreted(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(tl.float32) * 2)


SIZES = [triton.Config({"BLOCK": size}) for size in (16, 32)]
tuned = triton.autotune(SIZES, key=["n"])(elementwise)
added_by_tuned = triton.autotune(SIZES, key=[], reset_to_zero=["total"], restore_value=["x"])(
    counted
)
chosen = triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["n"])})(elementwise)


@triton.jit
def assembled(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x + i)], tl.float32, True, 1)
    tl.store(x + i, a)


@triton.jit
def outside(x, far, BLOCK: tl.constexpr):
    tl.store(x + far + tl.arange(0, BLOCK), 0.0)


@triton.jit
def waiting(x):
    while tl.load(x) == 0:
        tl.store(x, tl.load(x))


@triton.jit
def pointed(address):
    tl.store(address.to(tl.pointer_type(tl.float32)), 1.0)
