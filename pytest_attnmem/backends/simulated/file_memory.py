"""Tensors in the memory of a file, or of an object of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._mode_utils import no_dispatch

from .fake_tensor import CPU

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode


def of_files(
    to_fake: Callable[[torch.Tensor], Any], mode: SimulatedFakeMode
) -> dict[Any, Callable[..., Any]]:
    """Returns what makes tensors of files, by the function that a program calls."""

    def from_file(filename: str, shared: bool | None = None, *args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction(), no_dispatch():
            made = _placed(torch.from_file(filename, shared, *args, **kwargs), to_fake, mode)
        if shared:  # what an operator writes is in the file
            mode.values.give_away(made)
        return made

    return {torch.from_file: from_file}


def of_buffers(
    to_fakes: Callable[[tuple[torch.Tensor]], Any], mode: SimulatedFakeMode
) -> Callable[..., Any]:
    """Returns what makes tensors of buffers, in the place of ``torch.frombuffer``."""
    make = torch.frombuffer

    def frombuffer(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction(), no_dispatch():
            return _placed(make(*args, **kwargs), lambda real: to_fakes((real,))[0], mode)

    return frombuffer


def _placed(
    real: torch.Tensor, to_fake: Callable[[torch.Tensor], Any], mode: SimulatedFakeMode
) -> Any:
    """Returns the tensor on the host, or as one from outside if no device was named."""
    if not mode.device_named:
        return to_fake(real)
    return mode.values.of_array(real.detach(), CPU).requires_grad_(real.requires_grad)
