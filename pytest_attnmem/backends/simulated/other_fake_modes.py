"""Fake modes of the program itself, as under ``torch.export``: they take no simulated tensor.

Their fakes of it would be on a CUDA device, whose autograd ends the process in a CPU build.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorConverter

from ...errors import CannotSimulate
from .fake_tensor import SimulatedTensor
from .program_errors import at


def patches(refused: Callable[[str], CannotSimulate]) -> dict[tuple[Any, str], Any]:
    """Returns the patch, by owner and name."""
    original: Callable[..., Any] = FakeTensorConverter.from_real_tensor

    def from_real_tensor(converter: Any, fake_mode: Any, tensor: Any, *args: Any, **kw: Any) -> Any:
        if type(tensor) is SimulatedTensor and tensor.fake_mode is not fake_mode:
            raise refused(f"FakeTensorMode, as in torch.export,{at()} cannot be simulated")
        return original(converter, fake_mode, tensor, *args, **kw)

    return {(FakeTensorConverter, "from_real_tensor"): from_real_tensor}
