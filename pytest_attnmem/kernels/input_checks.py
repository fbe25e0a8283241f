"""The checks of a kernel's inputs, before it allocates memory."""

from __future__ import annotations

import torch
from torch import Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_inputs(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, grouped: bool = False
) -> None:
    """Checks that q is [B, H, N, d], k [B, H, M, d], v [B, H, M, dv], and that ``mask`` fits.

    If ``grouped``, k and v may have fewer heads, Hkv, a divisor of H. All tensors have one of
    ``DTYPES`` and are on one device. A mask is bool, True for a visible key, or of q's dtype, added
    to the scores; it broadcasts to [B, H, N, M].

    Raises:
        ValueError: a tensor does not fit; the text states the contract, then the tensor.
    """
    if q.dim() != 4 or q.shape[3] < 1:
        raise ValueError(f"q must have shape [B, H, N, d] with d >= 1, got {list(q.shape)}")
    B, H, N, d = q.shape
    heads, few, divides = "H", str(H), ""
    if grouped:
        heads = few = "Hkv"
        divides = f" and Hkv a divisor of H = {H}"
    Hkv = k.shape[1] if k.dim() == 4 else -1
    fits = Hkv > 0 and H % Hkv == 0 if grouped else Hkv == H
    if not fits or k.shape != (B, Hkv, k.shape[2], d) or k.shape[2] < 1:
        raise ValueError(
            f"k must have shape [B, {heads}, M, d] = [{B}, {few}, M, {d}] with M >= 1{divides}, got"
            f" {list(k.shape)}"
        )
    M = k.shape[2]
    if v.dim() != 4 or v.shape[:3] != (B, Hkv, M):
        raise ValueError(
            f"v must have shape [B, {heads}, M, dv] = [{B}, {Hkv}, {M}, dv], got {list(v.shape)}"
        )
    if q.dtype not in DTYPES:
        names = ", ".join(str(dtype) for dtype in DTYPES)
        raise ValueError(f"q must be of one of {names}, got {q.dtype}")
    for name, tensor in (("k", k), ("v", v)):
        if tensor.dtype != q.dtype:
            raise ValueError(f"{name} must be of q's dtype, {q.dtype}, got {tensor.dtype}")
    for name, tensor in (("k", k), ("v", v), ("mask", q if mask is None else mask)):
        if tensor.device != q.device:
            raise ValueError(f"{name} must be on q's device, {q.device}, got {tensor.device}")
    if mask is None:
        return
    if mask.dtype not in (torch.bool, q.dtype):
        raise ValueError(f"mask must be of torch.bool or q's dtype, {q.dtype}, got {mask.dtype}")
    # Sizes are compared from the last; a mask of fewer dimensions is broadcast over the first.
    sizes = zip(reversed(mask.shape), (M, N, H, B), strict=False)
    if mask.dim() > 4 or any(size not in (1, full) for size, full in sizes):
        raise ValueError(
            f"mask must broadcast to [B, H, N, M] = [{B}, {H}, {N}, {M}], got {list(mask.shape)}"
        )


def at_least_one(**sizes: int | None) -> None:
    """Checks the sizes that are given.

    Raises:
        ValueError: one is less than 1.
    """
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def is_simulated(tensor: Tensor) -> bool:
    """Returns True for a tensor of a simulated device, on which nothing runs."""
    return tensor.is_cuda and torch.cuda.get_device_name(tensor.device).endswith("(simulated)")
