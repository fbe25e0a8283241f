"""Samples of PyTorch's own database of operators, the same on every build of one version.

An operator makes its samples on the CPU from fixed seeds. A sample runs on a device with copies of
its tensors: forward, and backward if a result requires a gradient.
"""

import random
import sys
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

#: The most samples of an operator, spread evenly over all that it has, by dtype.
COUNTS = {torch.float32: 6, torch.bfloat16: 2}
#: Left out: convolutions, which cuDNN computes; recurrent layers are not in ``op_db``.
CUDNN = ("conv", "cudnn", "miopen")
#: Left out: no samples to run, more than a thousand, or samples that depend on the device.
OTHER = (
    *("empty_strided", "logspace.tensor_overload"),
    "nn.functional.scaled_dot_product_attention",
)


#: The kinds of operators over lists of tensors.
KINDS_OF_LISTS = ("unary", "binary", "pointwise", "reduce", "other")

#: Calls with targets of the results' sizes, with targets without elements, and in place.
SIZED, EMPTY, IN_PLACE = KINDS_OF_WRITES = ("sized", "empty", "in_place")


@dataclass(frozen=True)
class _Input:
    """A tensor of a sample; the simulation takes tensors from outside without a gradient."""

    tensor: torch.Tensor
    requires_grad: bool


@dataclass(frozen=True)
class Sample:
    """One call of an operator, with its tensors on the CPU."""

    name: str  # "linalg.qr float32 0"
    op: Callable[..., Any]
    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    takes_targets: bool = False
    in_place: Callable[..., Any] | None = None
    gaps: bool = False
    """True for tensors of which each element has a gap behind it."""

    def on(self, device: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments with new tensors on the device."""

        def moved(value: Any) -> Any:
            if isinstance(value, _Input):
                tensor = value.tensor.to(device)
                if self.gaps and tensor.layout is torch.strided:
                    tensor = torch.stack([tensor, tensor], -1)[..., 0].detach()
                return tensor.requires_grad_(value.requires_grad)
            if value == "cpu" or (isinstance(value, torch.device) and value.type == "cpu"):
                return device
            return value

        return tree_map(moved, (self.input, self.args, self.kwargs))


def writing_calls(sample: Sample, device: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields the calls of a sample that write into a tensor, with the kind of each.

    Those with ``out=`` need results that are tensors. None records gradients.
    """
    input, args, kwargs = sample.on(device)
    if sample.takes_targets:
        call = torch.no_grad()(partial(sample.op, input, *args, **kwargs))
        found = call()
        several = isinstance(found, (tuple, list))
        results = [*found] if several else [found]
        if all(isinstance(result, torch.Tensor) for result in results):
            for kind, made in ((SIZED, torch.zeros_like), (EMPTY, _empty)):
                targets = tuple([made(result) for result in results])
                yield kind, partial(call, out=targets if several else targets[0])
    if sample.in_place is not None:
        yield IN_PLACE, torch.no_grad()(partial(sample.in_place, input, *args, **kwargs))


def _empty(result: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=result.dtype, device=result.device)


def database() -> list[Any]:
    """Returns ``op_db`` and the operators over lists of tensors, ``_foreach_add`` and so on.

    Their module imports ``expecttest``, which no sample needs.
    """
    absent = ModuleType("expecttest")
    absent.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    used = sys.modules.setdefault("expecttest", absent)
    with patch("torch.backends.disable_global_flags"):  # for the whole process
        from torch.testing._internal import common_methods_invocations as known

    if used is absent:
        del sys.modules["expecttest"]
    lists = (getattr(known, f"foreach_{kind}_op_db") for kind in KINDS_OF_LISTS)
    return [*known.op_db, *chain.from_iterable(lists)]


def operators() -> dict[str, Any]:
    """Returns the operators by name, ``nn.functional.gelu`` or ``std_mean.unbiased``."""
    found = {}
    for op in database():
        name = f"{op.name}.{op.variant_test_name}".rstrip(".")
        left_out = name in OTHER or name.startswith("jiterator_")
        if not left_out and not any(word in name for word in CUDNN):
            found[name] = op
    return found


def samples(
    name: str, op: Any, counts: Mapping[torch.dtype, int] | None = None
) -> Iterator[Sample]:
    """Yields the samples of an operator; those that the CPU cannot make are left out.

    ``counts`` are the most samples by dtype, those of ``COUNTS`` by default.
    """
    counts = COUNTS if counts is None else counts
    offered = set(op.dtypes) or set(counts)
    wanted = {dtype: count for dtype, count in counts.items() if dtype in offered}
    if not wanted:
        wanted = {min(offered, key=str): counts[torch.float32]}
    for dtype, count in wanted.items():
        for number, made in enumerate(_spread(_made(op, dtype), count)):
            text = f"{name} {str(dtype).removeprefix('torch.')} {number}"
            input, args, kwargs = tree_map(
                _apart, (made.input, tuple(made.args), dict(made.kwargs))
            )
            writes = op.supports_out, op.inplace_variant
            yield Sample(text, op.op, input, args, kwargs, *writes)


def _apart(value: Any) -> Any:
    return _Input(value.detach(), value.requires_grad) if isinstance(value, torch.Tensor) else value


def _made(op: Any, dtype: torch.dtype) -> list[Any]:
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    with (
        warnings.catch_warnings(),
        patch("torch.cuda.is_available", lambda: False),
        # Both walk the stack, for errors of PyTorch's own tests, and take most of the time.
        patch("inspect.stack", list),
        patch("traceback.format_stack", list),
    ):
        warnings.simplefilter("ignore")  # and with a device, some operators have more samples
        try:
            return list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
        except RuntimeError:
            return []


def _spread(given: list[Any], count: int) -> list[Any]:
    step = max(len(given) / count, 1)
    return [given[int(index * step)] for index in range(min(count, len(given)))]


def results_with_gradients(result: Any) -> list[torch.Tensor]:
    """Returns the tensors of a result that require a gradient."""
    leaves = (leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
    return [leaf for leaf in leaves if leaf.requires_grad]


def backward(result: Any) -> bool:
    """Runs the backward of a result; returns False if nothing of it requires a gradient."""
    outputs = results_with_gradients(result)
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    return bool(outputs)
