"""Subclasses of ``torch.Tensor`` in the program: no simulated tensor can be of one.

A simulated tensor is of a class of its own, and a Python object has one class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import torch

from ...errors import CannotSimulate
from .fake_tensor import SimulatedTensor
from .program_attributes import without_own
from .program_errors import at

_PARAMETERS: Final = (torch.nn.Parameter, torch.nn.Buffer)
#: The classes of which a simulated tensor is one to the program.
_REBUILD: Final[Any] = torch._tensor._rebuild_from_type_v2
PLAIN: Final = (torch.Tensor, *_PARAMETERS)


def refusal(kind: Any, named: str = "") -> str:
    """Returns the text that refuses a tensor of a subclass."""
    return (
        f"a tensor{named} of the subclass {kind.__name__}{at()} cannot be simulated; use a plain"
        " torch.Tensor, or backend='cpu' for this test"
    )


def patches(refused: Callable[[str], CannotSimulate]) -> dict[tuple[Any, str], Any]:
    """Returns the patches that refuse to make one of a simulated tensor, by owner and name."""
    as_subclass = torch.Tensor.as_subclass
    make_subclass = torch.Tensor._make_subclass
    make_parameter: Callable[..., Any] = torch.nn.Parameter.__new__

    def as_kind(tensor: Any, kind: Any) -> Any:
        if type(tensor) is not SimulatedTensor:
            return as_subclass(tensor, kind)
        if kind is torch.Tensor:
            rebuilt = sys._getframe(1).f_code is _REBUILD.__code__  # PyTorch sees another class
            return tensor if rebuilt else torch.ops.aten.alias.default(tensor)
        raise refused(refusal(kind))

    def subclass(kind: Any, data: Any, require_grad: bool = False, **options: Any) -> Any:
        if type(data) is not SimulatedTensor:
            return make_subclass(kind, data, require_grad, **options)
        if kind is torch.nn.Parameter:
            return make_parameter(kind, data, require_grad)
        raise refused(refusal(kind))

    def parameter(kind: Any, data: Any = None, requires_grad: bool = True, **given: Any) -> Any:
        made = make_parameter(kind, data, requires_grad, **without_own(given))
        if kind not in _PARAMETERS and type(made) is SimulatedTensor:
            raise refused(refusal(kind))
        return made

    return {
        (torch.Tensor, "as_subclass"): as_kind,
        (torch.Tensor, "_make_subclass"): staticmethod(subclass),
        (torch.nn.Parameter, "__new__"): parameter,
    }
