"""FlashAttention-2 as Triton programs, forward and backward."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import check_inputs, is_simulated
from .kernel import Kernel
from .memory_terms import LOSS, OUT, K, Q, V, kernel_model
from .recorded import recorded

#: Wider heads do not fit a multiprocessor's shared memory.
MAX_WIDTH = 256
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None
) -> Tensor:
    """Softmax attention by tiles in on-chip memory → [B, H, N, dv].

    The backward pass keeps q, k, v, the output and the logarithm of each row's sum of
    exponentials, [B, H, N]; scores are computed again. Sums are float32, and of float32 inputs the
    products too. Tiles are chosen by timing them, once for each head dim and dtype: the first call
    is slow, and takes a buffer to clear the cache with. Inputs that are not contiguous are copied.

    Args:
        q: [B, H, N, d], d at most 256; float16, bfloat16 or float32; on a GPU, or on the CPU with
            TRITON_INTERPRET=1 in the environment.
        k: [B, H, M, d].
        v: [B, H, M, dv], dv at most 256.
        causal: Query i sees only the keys 0 … i; tiles above the diagonal are skipped.
        scale: The factor of the scores, ``d ** -0.5`` by default.

    Raises:
        ValueError: the inputs do not fit together, or are not what Triton's programs take.
        RuntimeError: Triton is not installed, or does not run where the inputs are.

    O(N·d) memory, O(N²·d) time: Dao, 2023 (arXiv 2307.08691), FlashAttention-2: Faster Attention
    with Better Parallelism and Work Partitioning.
    """
    check_inputs(q, k, v)
    _check_limits(q, k, v)
    d, dv = q.shape[3], v.shape[3]
    how = _How(_programs(q), causal, d**-0.5 if scale is None else scale, d, dv)
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    return recorded("flash-triton", _forward, _backward, how, q, k, v)


@dataclass(frozen=True, slots=True)
class _How:
    """The programs, and their arguments other than tensors."""

    programs: ModuleType | None
    """None if tensors have no data, as in a simulated run: nothing is launched."""
    causal: bool
    scale: float
    d: int
    dv: int

    def launch(self, name: str, matrices: int, rows: int, block: str, *given: Any) -> None:
        """Launches a program for each block of rows of each matrix.

        It is compiled for the head dims, and for the next powers of 2 that its tiles have.
        """
        if self.programs is None or not matrices * rows:
            return
        getattr(self.programs, name)[lambda meta: (matrices * -(-rows // meta[block]),)](
            *given,
            D=self.d,
            DV=self.dv,
            WIDTH=max(16, 1 << (self.d - 1).bit_length()),
            WIDTH_V=max(16, 1 << (self.dv - 1).bit_length()),
            CAUSAL=self.causal,
        )


def _forward(q: Tensor, k: Tensor, v: Tensor, how: _How) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    (B, H, N, _), (M, dv) = q.shape, v.shape[2:]
    out = q.new_empty(B, H, N, dv)  # [B, H, N, dv]
    lse = q.new_empty(B, H, N, dtype=torch.float32)  # [B, H, N]
    how.launch("forward", B * H, N, "BLOCK_Q", q, k, v, out, lse, how.scale, N, M)
    return out, (out, lse)


def _backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, grad: Tensor, how: _How
) -> tuple[Tensor, Tensor, Tensor]:
    (B, H, N, _), M = q.shape, k.shape[2]
    strides, given = grad.stride(), (q, k, v, grad, lse)
    delta = torch.empty_like(lse)  # [B, H, N]
    how.launch("dot_rows", B * H, N, "BLOCK_Q", out, grad, delta, N, H, *strides)
    sizes = (how.scale, N, M, H, *strides)
    dq = torch.empty_like(q)  # [B, H, N, d]
    how.launch("query_gradient", B * H, N, "BLOCK_Q", *given, delta, dq, *sizes)
    dk, dv = torch.empty_like(k), torch.empty_like(v)  # [B, H, M, d], [B, H, M, dv]
    how.launch("key_gradients", B * H, M, "BLOCK_K", *given, delta, dk, dv, *sizes)
    return dq, dk, dv


def _check_limits(q: Tensor, k: Tensor, v: Tensor) -> None:
    if q.dtype not in DTYPES:
        names = ", ".join(str(dtype) for dtype in DTYPES)
        raise ValueError(f"q must be of one of {names} in flash-triton, got {q.dtype}")
    for name, tensor in (("d", q), ("dv", v)):
        if not 0 < tensor.shape[3] <= MAX_WIDTH:
            raise ValueError(
                f"{name} must be 1 to {MAX_WIDTH} in flash-triton, got {tensor.shape[3]}"
            )
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.shape[2] * tensor.shape[3] >= 1 << 31:
            raise ValueError(
                f"a head of {name} must have less than 2**31 elements in flash-triton, got"
                f" {list(tensor.shape[2:])}"
            )


def _programs(q: Tensor) -> ModuleType | None:
    """Triton's, imported when first needed."""
    if is_simulated(q):
        return None
    if importlib.util.find_spec("triton") is None:
        raise RuntimeError("flash-triton needs Triton: pip install triton")
    if q.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError(
            f"flash-triton runs on cuda, or on the CPU with TRITON_INTERPRET=1, got {q.device}"
        )
    from . import _flash_triton_programs

    return _flash_triton_programs


_KEPT = {"out": OUT, "lse": "B*H*N*4"}
_FORWARD = (Phase("forward", _KEPT),)
_BACKWARD = (Phase("backward", {**LOSS, **_KEPT, "delta": "B*H*N*4", "dq": Q, "dk": K, "dv": V}),)

MODEL = kernel_model("flash-triton", _FORWARD, _FORWARD + _BACKWARD)

KERNEL = Kernel("flash-triton", attention, MODEL, devices=("cuda",))
