"""Tensors in the memory of a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._mode_utils import no_dispatch

if TYPE_CHECKING:
    from .values import Values


def of_files(
    to_fake: Callable[[torch.Tensor], Any], values: Values
) -> dict[Any, Callable[..., Any]]:
    """Returns what makes such tensors, by the function that a program calls."""

    def from_file(filename: str, shared: bool | None = None, *args: Any, **kwargs: Any) -> Any:
        with no_dispatch():
            made = to_fake(torch.from_file(filename, shared, *args, **kwargs))
        if shared:  # what an operator writes is in the file
            values.give_away(made)
        return made

    return {torch.from_file: from_file}
