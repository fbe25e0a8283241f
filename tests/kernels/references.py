"""References in NumPy for other attention than the standard one, and what their tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_attnmem.kernels import Kernel
from pytest_attnmem.measurement.protocol import BackendProtocol
from pytest_attnmem.symbols.attention_shape import Source, gather

#: Each type in one mode; ``test_models`` has every type in both, at other sizes.
MODES = pytest.mark.parametrize(
    ("dtype", "training"),
    [(torch.float64, False), (torch.bfloat16, True)],
    ids=["forward", "training"],
)
BOTH = pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])


def over(kernels: Iterable[Kernel]) -> pytest.MarkDecorator:
    """Runs a test for each of the kernels."""
    return pytest.mark.parametrize("kernel", kernels, ids=lambda kernel: kernel.name)


def noise(*shape: int, seed: int = 3) -> torch.Tensor:
    """Standard normal float64, the same each time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gradients(function: Callable[..., Any], tensors: Any) -> Any:
    """The gradients of a sum of squares."""
    return torch.autograd.grad(function(*tensors).square().sum(), tensors)


def hold_equal(ours: Callable[..., Any], theirs: Callable[..., Any], tensors: Any) -> None:
    """Checks that two functions of float64 tensors have equal results and equal gradients."""
    assert (ours(*tensors) - theirs(*tensors)).abs().max() <= 1e-13
    for got, other in zip(gradients(ours, tensors), gradients(theirs, tensors), strict=True):
        assert (got - other).abs().max() <= 1e-12


def linear_reference(q: Any, k: Any, v: Any, causal: bool, eps: float = 1e-6) -> Any:
    """Linear attention in float64, by its weights: q [B, H, N, d], k [B, H, M, d], v [B, H, M, dv].

    ``out = w @ v / (w.sum() + eps)`` with ``w = φ(q)·φ(k)`` and φ = elu + 1; with ``causal`` a
    query's weights for later keys are 0.
    """
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    weights = _features(q) @ _features(k).swapaxes(-1, -2)  # [B, H, N, M]
    if causal:
        weights = np.tril(weights)
    return weights @ v / (weights.sum(-1, keepdims=True) + eps)  # [B, H, N, dv]


def _features(x: Any) -> Any:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def seen(pattern: Callable[[Any], Any], N: int, M: int, causal: bool) -> Any:
    """The keys that each query sees by a sparse kernel's pattern: bool [N, M]."""
    behind = np.arange(N)[:, None] - np.arange(M)
    known = behind >= 0 if causal else np.ones((N, M), dtype=bool)
    return known & pattern(behind)


class Case:
    """A kernel's call on tensors, and its model; options are symbols, a mask by its elements."""

    def __init__(
        self,
        kernel: Kernel,
        training: bool,
        tensors: tuple[torch.Tensor, ...],
        backend: BackendProtocol,
        symbols: Any = (),
        **options: object,
    ) -> None:
        self.model = kernel.model.training if training else kernel.model.forward
        self.kernel, self.training, self.tensors, self.options = kernel, training, tensors, options
        q, k, v = tensors
        names = ("B", "H", "N", "d", "Hkv", "M", "dv")
        sizes = zip(names, (*q.shape, *k.shape[1:3], v.shape[3]), strict=True)
        given = {
            name: value.numel() if isinstance(value, torch.Tensor) else value
            for name, value in options.items()
        }
        known = {**dict(sizes), "dtype": q.dtype, **given, **dict(symbols)}
        self.shape = gather([Source("the test", known), Source("the backend", backend.symbols)])

    def __call__(self) -> object:
        """Makes the modelled call, whose result or gradients outlive it."""
        if not self.training:
            with torch.no_grad():
                return self.kernel.attention(*self.tensors, **self.options)
        leaves = [x.detach().requires_grad_() for x in self.tensors]  # whose gradients are theirs
        self.kernel.attention(*leaves, **self.options).sum().backward()
        return None


class Calls(TorchDispatchMode):
    """Counts the calls of an operator, by default of that of products into a tensor."""

    def __init__(self, operator: Any = torch.ops.aten.baddbmm_.default) -> None:
        super().__init__()
        self.operator, self.count = operator, 0

    def __torch_dispatch__(
        self, func: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += func is self.operator
        return func(*args, **(kwargs or {}))
