"""Rules for random samples (ATen's cuda/MultinomialKernel.cu, Randperm.cu, Distributions.cpp).

``multinomial`` without replacement, or of one sample, reads its probabilities on the host first.
"""

from __future__ import annotations

from math import ceil, log, log2
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from .cub import radix_sort_storage, scan_storages
from .op_plan import AllocationPlan, OpCall, Rule, argument
from .plan_parts import HALVES, allocate_outputs, dense_bytes, temporary
from .scan import SCANNED

if TYPE_CHECKING:
    import torch

_FLOAT: Final = 4


def _multinomial(call: OpCall) -> AllocationPlan | None:
    """Plans samples with replacement: a copy of the probabilities, normalized, and its sums."""
    x: torch.Tensor = call.args[0]
    known = x.dtype in SCANNED and call.profile.kernels is not None
    if call.args[1] == 1 or not argument(call, "replacement") or not known or not x.numel():
        return None
    nbytes = dense_bytes(x)
    scans: AllocationPlan = ()
    if x.dim() == 1 or x.shape[0] == 1:
        storages = list(scan_storages(x.numel(), x.dtype.itemsize, whole=x.dtype not in HALVES))
        if len(storages) > 1:
            return None
        scans = temporary("scan", storages[0])
    copies = temporary("normalized", nbytes, temporary("sums", nbytes, scans))
    if call.version < (2, 15):
        copies = temporary("probabilities", nbytes, copies)
    return (*allocate_outputs(call), *copies)


def _bernoulli(call: OpCall) -> AllocationPlan:
    """Plans probabilities in half precision, as floats."""
    p: torch.Tensor = call.args[0]
    floats = p.numel() * _FLOAT if p.dtype in HALVES else 0
    return (*allocate_outputs(call), *temporary("probabilities", floats))


def _normal_around(call: OpCall) -> AllocationPlan:
    """Plans ``normal`` around a tensor, whose samples are made apart (``normal_out_impl``)."""
    samples = temporary("samples", dense_bytes(call.args[0]))
    return (*allocate_outputs(call), *samples)


def _order(call: OpCall) -> AllocationPlan | None:
    """Plans ``randperm``: the numbers up to ``n``, sorted by random keys.

    The keys have as many bits as let 12 draws repeat a key with a probability of 10 %.
    """
    count, target = int(call.args[0]), call.kwargs.get("out")
    made = (target,) if target is not None else call.outputs
    if not made:
        return ()
    size = made[0].dtype.itemsize
    checked = (*allocate_outputs(call), *temporary("largest number", size))
    if not count:
        return checked
    bits = min(64, ceil(log2(count - (6 * count**2 + 1) / (12 * log(0.9)))))
    key = 4 if bits <= 32 else 8
    storage = radix_sort_storage(count, key, size, bits, call.profile)
    if storage is None:
        return None
    sort = temporary("sorted keys", count * key, temporary("sort", storage))
    numbers = temporary("numbers", count * size, temporary("keys", count * key, sort))
    gaps = target is not None and not target.is_contiguous()
    return (*checked, *temporary("order without gaps", count * size * gaps, numbers))


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.multinomial.default": _multinomial,
        "aten.bernoulli.default": _bernoulli,
        "aten.normal.Tensor_float": _normal_around,
        **dict.fromkeys(
            (
                *("aten.poisson.default", "aten.binomial.default"),
                *("aten._standard_gamma.default", "aten._standard_gamma_grad.default"),
            ),
            allocate_outputs,
        ),
        **{f"aten.randperm{name}": _order for name in ("", ".out", ".generator_out")},
    }
)
