"""FlashAttention-2's programs for one block of queries or keys, in Triton's language.

Tensors are of B·H matrices, one after the other: Q, G and Dq of N rows, K and V of M, Out and Grad
of N. Grad has strides of its own, for it may be one number expanded. WIDTH is a power of 2 not
below D, which Triton asks of a block; scores are in units of log 2, which exp2 undoes.
"""
# mypy: ignore-errors
# Triton reads this source itself: its types are Triton's.

from __future__ import annotations

import os

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
#: A program can read a constant of a module only if its type is Triton's own.
LN2 = 0.6931471805599453 if triton is None else tl.constexpr(0.6931471805599453)
#: The interpreter has no products of bfloat16. Those of float32 are the same: they are exact.
WIDEN = INTERPRETED if triton is None else tl.constexpr(INTERPRETED)


def _program(function):
    return function if triton is None else triton.jit(function)


def _tuned(*choices):
    """Time each (BLOCK_Q, BLOCK_K, warps, stages) once for a width and dtype; interpret one."""
    if triton is None:
        return lambda function: function
    if INTERPRETED:
        choices = ((16, 32, 1, 1),)
    configs = [
        triton.Config({"BLOCK_Q": q, "BLOCK_K": k}, num_warps=warps, num_stages=stages)
        for q, k, warps, stages in choices
    ]
    return triton.autotune(configs, key=["WIDTH", "WIDTH_V", "CAUSAL"])


@_program
def _dot(a, b):
    """a @ b in float32; of float32 without the rounding of tf32."""
    if WIDEN:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")


@_program
def _load(x, rows, total, D: tl.constexpr, WIDTH: tl.constexpr, EDGE: tl.constexpr):
    """Rows of a matrix, [rows, WIDTH], zeros where it has none; EDGE if that may be."""
    columns = tl.arange(0, WIDTH)
    places = x + rows[:, None] * D + columns[None, :]
    if EDGE:
        return tl.load(places, mask=(rows[:, None] < total) & (columns[None, :] < D), other=0.0)
    if D < WIDTH:
        return tl.load(places, mask=columns[None, :] < D, other=0.0)
    return tl.load(places)


@_program
def _store(x, rows, total, value, D: tl.constexpr, WIDTH: tl.constexpr):
    """Write rows that the matrix has, in its dtype."""
    columns = tl.arange(0, WIDTH)
    places = x + rows[:, None] * D + columns[None, :]
    inside = (rows[:, None] < total) & (columns[None, :] < D)
    tl.store(places, value.to(x.dtype.element_ty), mask=inside)


@_program
def _load_grad(grad, rows, total, row_stride, stride, D: tl.constexpr, WIDTH: tl.constexpr):
    """Rows of the gradient, by its strides."""
    columns = tl.arange(0, WIDTH)
    places = grad + rows[:, None].to(tl.int64) * row_stride + columns[None, :] * stride
    return tl.load(places, mask=(rows[:, None] < total) & (columns[None, :] < D), other=0.0)


@_program
def _scores(q, k, scale, rows, columns, M, CAUSAL: tl.constexpr, EDGE: tl.constexpr):
    """Scaled scores [rows, columns], -inf where a key is hidden; EDGE if one may be."""
    scores = _dot(q, tl.trans(k)) * scale
    if EDGE:
        visible = columns[None, :] < M
        if CAUSAL:
            visible = visible & (columns[None, :] <= rows[:, None])
        scores = tl.where(visible, scores, float("-inf"))
    return scores


@_program
def _block(N, BLOCK: tl.constexpr):
    """Which matrix this program works on, and which of its blocks of rows."""
    blocks = tl.cdiv(N, BLOCK)
    return (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks * BLOCK


@_program
def _ends(first, N, M, CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr):
    """The keys that all rows from ``first`` see, in whole blocks, and those that any sees."""
    end = M
    inner = M
    if CAUSAL:
        end = tl.minimum(M, first + BLOCK_Q)
        inner = tl.minimum(M, first + 1)
    return inner // BLOCK_K * BLOCK_K, end


@_program
def _attend(
    acc, row_max, row_sum, q, K, V, start, end, rows, M, scale,
    D: tl.constexpr, DV: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
    CAUSAL: tl.constexpr, EDGE: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The online softmax over the keys from ``start`` to ``end``."""
    for first in tl.range(start, end, BLOCK_K):
        columns = first + tl.arange(0, BLOCK_K)
        k = _load(K, columns, M, D, WIDTH, EDGE)
        scores = _scores(q, k, scale, rows, columns, M, CAUSAL, EDGE)
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        weights = tl.exp2(scores - new_max[:, None])
        shrink = tl.exp2(row_max - new_max)
        row_sum = row_sum * shrink + tl.sum(weights, 1)
        v = _load(V, columns, M, DV, WIDTH_V, EDGE)
        acc = acc * shrink[:, None] + _dot(weights.to(v.dtype), v)
        row_max = new_max
    return acc, row_max, row_sum


@_tuned((128, 64, 4, 3), (128, 128, 8, 3), (128, 64, 8, 3), (128, 32, 4, 3), (64, 64, 4, 3),
        (64, 32, 4, 2), (32, 32, 4, 1))  # fmt: skip
@_program
def forward(
    Q, K, V, Out, Lse, scale, N, M,
    D: tl.constexpr, DV: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One block of rows of the output, and the logarithm of each one's sum of exponentials."""
    matrix, first = _block(N, BLOCK_Q)
    rows = first + tl.arange(0, BLOCK_Q)
    K += matrix * M * D
    V += matrix * M * DV
    q = _load(Q + matrix * N * D, rows, N, D, WIDTH, True)
    acc = tl.zeros([BLOCK_Q, WIDTH_V], tl.float32)
    row_max = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_Q], tl.float32)
    inner, end = _ends(first, N, M, CAUSAL, BLOCK_Q, BLOCK_K)
    acc, row_max, row_sum = _attend(
        acc, row_max, row_sum, q, K, V, 0, inner, rows, M, scale / LN2,
        D, DV, WIDTH, WIDTH_V, CAUSAL, False, BLOCK_K,
    )  # fmt: skip
    acc, row_max, row_sum = _attend(
        acc, row_max, row_sum, q, K, V, inner, end, rows, M, scale / LN2,
        D, DV, WIDTH, WIDTH_V, CAUSAL, True, BLOCK_K,
    )  # fmt: skip
    _store(Out + matrix * N * DV, rows, N, acc / row_sum[:, None], DV, WIDTH_V)
    lse = (row_max + tl.log2(row_sum)) * LN2
    tl.store(Lse + matrix * N + rows, lse, mask=rows < N)


@_tuned((64, 64, 4, 1))
@_program
def dot_rows(
    Out, Grad, Delta, N, H, batch_stride, head_stride, row_stride, stride,
    D: tl.constexpr, DV: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Delta, the product of each row of the output with its gradient."""
    matrix, first = _block(N, BLOCK_Q)
    rows = first + tl.arange(0, BLOCK_Q)
    Grad += matrix // H * batch_stride + matrix % H * head_stride
    out = _load(Out + matrix * N * DV, rows, N, DV, WIDTH_V, True)
    grad = _load_grad(Grad, rows, N, row_stride, stride, DV, WIDTH_V)
    delta = tl.sum(out.to(tl.float32) * grad.to(tl.float32), 1)
    tl.store(Delta + matrix * N + rows, delta, mask=rows < N)


@_program
def _descend(
    dq, q, grad, lse, delta, K, V, start, end, rows, M, scale,
    D: tl.constexpr, DV: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
    CAUSAL: tl.constexpr, EDGE: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Add what the keys from ``start`` to ``end`` give to dq."""
    for first in tl.range(start, end, BLOCK_K):
        columns = first + tl.arange(0, BLOCK_K)
        k = _load(K, columns, M, D, WIDTH, EDGE)
        v = _load(V, columns, M, DV, WIDTH_V, EDGE)
        scores = _scores(q, k, scale, rows, columns, M, CAUSAL, EDGE)
        weights = tl.exp2(scores - lse[:, None])
        slopes = _dot(grad, tl.trans(v)) - delta[:, None]
        dq += _dot((weights * slopes).to(k.dtype), k)
    return dq


@_tuned((128, 64, 8, 2), (128, 32, 4, 2), (64, 64, 4, 2), (64, 32, 4, 2), (32, 32, 4, 1))
@_program
def query_gradient(
    Q, K, V, Grad, Lse, Delta, Dq, scale, N, M, H, batch_stride, head_stride, row_stride, stride,
    D: tl.constexpr, DV: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One block of rows of dq."""
    matrix, first = _block(N, BLOCK_Q)
    rows = first + tl.arange(0, BLOCK_Q)
    K += matrix * M * D
    V += matrix * M * DV
    Grad += matrix // H * batch_stride + matrix % H * head_stride
    q = _load(Q + matrix * N * D, rows, N, D, WIDTH, True)
    grad = _load_grad(Grad, rows, N, row_stride, stride, DV, WIDTH_V)
    lse = tl.load(Lse + matrix * N + rows, mask=rows < N, other=0.0) / LN2
    delta = tl.load(Delta + matrix * N + rows, mask=rows < N, other=0.0)
    dq = tl.zeros([BLOCK_Q, WIDTH], tl.float32)
    inner, end = _ends(first, N, M, CAUSAL, BLOCK_Q, BLOCK_K)
    dq = _descend(
        dq, q, grad, lse, delta, K, V, 0, inner, rows, M, scale / LN2,
        D, DV, WIDTH, WIDTH_V, CAUSAL, False, BLOCK_K,
    )  # fmt: skip
    dq = _descend(
        dq, q, grad, lse, delta, K, V, inner, end, rows, M, scale / LN2,
        D, DV, WIDTH, WIDTH_V, CAUSAL, True, BLOCK_K,
    )  # fmt: skip
    _store(Dq + matrix * N * D, rows, N, dq * scale, D, WIDTH)


@_tuned((64, 128, 8, 2), (32, 128, 4, 2), (64, 64, 4, 2), (32, 64, 4, 2), (32, 32, 4, 1))
@_program
def key_gradients(
    Q, K, V, Grad, Lse, Delta, Dk, Dv, scale, N, M, H, batch_stride, head_stride, row_stride,
    stride,
    D: tl.constexpr, DV: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One block of rows of dk and dv."""
    matrix, first_key = _block(M, BLOCK_K)
    columns = first_key + tl.arange(0, BLOCK_K)
    Q += matrix * N * D
    Grad += matrix // H * batch_stride + matrix % H * head_stride
    k = _load(K + matrix * M * D, columns, M, D, WIDTH, True)
    v = _load(V + matrix * M * DV, columns, M, DV, WIDTH_V, True)
    dk = tl.zeros([BLOCK_K, WIDTH], tl.float32)
    dv = tl.zeros([BLOCK_K, WIDTH_V], tl.float32)
    start = 0
    if CAUSAL:
        start = first_key // BLOCK_Q * BLOCK_Q
    for first in tl.range(start, N, BLOCK_Q):
        rows = first + tl.arange(0, BLOCK_Q)
        q = _load(Q, rows, N, D, WIDTH, True)
        grad = _load_grad(Grad, rows, N, row_stride, stride, DV, WIDTH_V)
        lse = tl.load(Lse + matrix * N + rows, mask=rows < N, other=0.0) / LN2
        delta = tl.load(Delta + matrix * N + rows, mask=rows < N, other=0.0)
        scores = _scores(q, k, scale / LN2, rows, columns, M, CAUSAL, CAUSAL)
        weights = tl.exp2(scores - lse[:, None])
        dv += _dot(tl.trans(weights.to(grad.dtype)), grad)
        slopes = _dot(grad, tl.trans(v)) - delta[:, None]
        dk += _dot(tl.trans((weights * slopes).to(q.dtype)), q)
    _store(Dk + matrix * M * D, columns, M, dk * scale, D, WIDTH)
    _store(Dv + matrix * M * DV, columns, M, dv, DV, WIDTH_V)
