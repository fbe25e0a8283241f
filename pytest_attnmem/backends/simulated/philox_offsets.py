"""How far an operator of CUDA moves its generator on, in Philox's random numbers.

The next operator draws from there. Sources, in aten/src/ATen/native: cuda/DistributionTemplates.h
(``calc_execution_policy``), cuda/{Distributions,Dropout,Randperm}.cu and
transformers/cuda/{attention,flash_attn/flash_api}.cu.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from ...profiles import DeviceProfile

_CALL: Final = 4
"""The numbers of one call of Philox."""
_THREADS: Final = 256
#: The range from which on a random integer takes two numbers.
_WIDE: Final = 2**28
_PAIRS: Final = (torch.float64, torch.complex128)
#: Operators whose threads draw so many numbers, whatever the size.
_FIXED: Final = MappingProxyType(
    {
        "aten.poisson.default": 20,
        "aten.binomial.default": 44,
        "aten._standard_gamma.default": 12,
        "aten._sample_dirichlet.default": 12,
    }
)
_BY_TENSOR: Final = frozenset({"aten.bernoulli.default", "aten.bernoulli_.Tensor"})
_LAUNCHED: Final = frozenset(
    {
        *("rand", "rand_like", "randn", "randn_like", "normal", "normal_", "normal_functional"),
        *("uniform", "uniform_", "exponential", "exponential_", "cauchy", "cauchy_"),
        *("log_normal", "log_normal_", "geometric", "geometric_", "bernoulli", "bernoulli_"),
        *("rrelu_with_noise", "rrelu_with_noise_", "rrelu_with_noise_functional"),
    }
)
_INTEGERS: Final = frozenset({"randint", "randint_like", "random", "random_"})
_ATTENTION: Final = MappingProxyType(
    {
        "aten._scaled_dot_product_flash_attention.default": 3,
        "aten._scaled_dot_product_efficient_attention.default": 5,
    }
)
"""The position of the probability."""
#: Operators that PyTorch calls random, and that draw nothing: they take what a forward drew.
_NO_DRAW: Final = ("attention_backward",)


def moved_by(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], profile: DeviceProfile
) -> int:
    """Returns the numbers by which an operator moves the generator on."""
    called = str(func)
    name = func._schema.name.removeprefix("aten::")
    if called in _FIXED:
        return _FIXED[called]
    if called in _ATTENTION:
        return _of_attention(called, args, kwargs)
    if name.endswith(_NO_DRAW):
        return 0
    if name == "randperm":
        count = int(args[0])
        keys = _launched(count, 2, profile)
        return keys + -(-count // _CALL) * _CALL
    if name in ("native_dropout", "_fused_dropout"):
        p, train = args[1], name == "_fused_dropout" or args[2] is not False
        drops = train and (name == "_fused_dropout" or p != 1)
        return _launched(args[0].numel(), 4, profile) if drops else 0
    if name not in _LAUNCHED and name not in _INTEGERS:
        return _CALL
    count, dtype = _elements(args), _dtype(args, kwargs)
    if called in _BY_TENSOR:
        return 3 * _CALL if count else 0
    if dtype.is_complex:
        count *= 2
    in_pairs = _is_wide(args, dtype) if name in _INTEGERS else dtype in _PAIRS
    return _launched(count, 2 if in_pairs else 4, profile)


def _launched(count: int, unroll: int, profile: DeviceProfile) -> int:
    """Returns what each thread of a launch draws that covers so many elements."""
    if not count:
        return 0
    resident = profile.architecture.threads_per_multiprocessor // _THREADS
    blocks = min(profile.multiprocessors * resident, -(-count // _THREADS))
    return -(-count // (_THREADS * blocks * unroll)) * _CALL


def _of_attention(called: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    position = _ATTENTION[called]
    if not (args[position] if len(args) > position else kwargs.get("dropout_p", 0.0)):
        return 0
    query, key = args[:2]
    batch, heads, length = query.shape[:3]
    if "flash" in called:
        return int(batch * heads * 32)
    return int(-(-batch * heads * length * key.shape[-2] // _CALL) * _CALL)


def _elements(args: tuple[Any, ...]) -> int:
    shapes = [arg.shape for arg in args if isinstance(arg, torch.Tensor)]
    if len(shapes) > 1:
        return prod(torch.broadcast_shapes(*shapes))  # which is slow
    if shapes:
        return shapes[0].numel()
    return prod(next((arg for arg in args if isinstance(arg, (list, tuple))), ()))


def _dtype(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.dtype:
    given = kwargs.get("dtype")
    tensors = (arg for arg in (*args, kwargs.get("out")) if isinstance(arg, torch.Tensor))
    tensor = next(tensors, None)
    return given or (torch.get_default_dtype() if tensor is None else tensor.dtype)


def _is_wide(args: tuple[Any, ...], dtype: torch.dtype) -> bool:
    """Returns True for a wide range: up to ``to``, from ``from`` on, or the dtype's own."""
    bounds = [arg for arg in args if type(arg) is int]
    if not bounds or args[-1] is None:
        return dtype in (torch.float64, torch.int64)
    return bounds[-1] - (bounds[0] if len(bounds) > 1 else 0) >= _WIDE
