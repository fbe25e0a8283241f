"""The fixture that computes one operator with named arguments."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_attnmem.values.compute import compute


@pytest.fixture
def run() -> Callable[..., Any]:
    """Returns a function that computes ``aten.NAME.OVERLOAD`` of these arguments."""

    def compute_by_name(name: str, *args: Any, **kwargs: Any) -> Any:
        packet, _, overload = name.partition(".")
        return compute(
            getattr(getattr(torch.ops.aten, packet), overload or "default"), args, kwargs
        )

    return compute_by_name


@pytest.fixture
def values() -> Callable[..., torch.Tensor]:
    """Returns a function that makes random float64 tensors, the same in each run."""
    generator = torch.Generator().manual_seed(1)

    def make(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return make
