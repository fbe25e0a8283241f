"""The allocation plan of an operator call: what a CUDA device allocates and frees to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ....profiles import DeviceProfile
from ....torch_releases import Version
from .workspaces import CUBLAS

CudnnWorkspace = Callable[[str], "int | str"]


@dataclass(frozen=True, slots=True)
class OpCall:
    """A dispatched operator call, with the arguments that a CUDA kernel gets."""

    op: str  # "aten.bmm.default"
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[Any, ...]  # the returned tensors that have a new storage, in order
    profile: DeviceProfile
    deterministic: bool  # torch.are_deterministic_algorithms_enabled()
    version: Version  # of PyTorch, whose rules hold
    #: Returns the bytes of the workspace that cuDNN plans for a question, or why they are unknown.
    cudnn_workspace: CudnnWorkspace | None = None
    resized: bool = False  # a target, ``out=``, has got other memory


@dataclass(frozen=True, slots=True)
class Output:
    """Allocates the storage of ``outputs[index]``.

    ``nbytes`` is set where the storage has another size on CUDA than on other devices.
    """

    index: int
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class Temporary:
    """Allocates memory that ``Free`` or else the end of the operator frees, newest first."""

    name: str
    nbytes: int
    otherwise: str = ""
    """Why nothing is enforced if it does not fit, and PyTorch goes on with other memory."""


@dataclass(frozen=True, slots=True)
class Free:
    """Frees the temporary of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Workspace:
    """Gives a workspace to a library for one call; some versions keep it for later calls."""

    library: str = CUBLAS


@dataclass(frozen=True, slots=True)
class Unplanned:
    """Stands for scratch whose size is unknown for a reason, so that nothing is enforced."""

    reason: str


Step = Output | Temporary | Free | Workspace | Unplanned
AllocationPlan = tuple[Step, ...]
#: Plans the calls of one operator; returns None for a call that it has no model of.
Rule = Callable[[OpCall], AllocationPlan | None]
#: Plans the calls of every operator; returns None for a call without a model.
Planner = Callable[[OpCall], AllocationPlan | None]


def overload(op: str) -> Any:
    """Returns the operator of that name, such as ``aten.mm.default``; None if there is none."""
    namespace, packet, name = op.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet, None), name, None)


def argument(call: OpCall, name: str) -> Any:
    """Returns the argument of that name: passed by name, by position, or the default.

    Returns None if the operator has no argument of that name.
    """
    if name in call.kwargs:
        return call.kwargs[name]
    for position, expected in enumerate(overload(call.op)._schema.arguments):
        if expected.name == name:
            passed = position < len(call.args) and not expected.kwarg_only
            return call.args[position] if passed else expected.default_value
    return None


def writes_into_targets(op: str) -> bool:
    """Returns True for an operator that is given tensors for its results, ``out=``."""
    operator = overload(op)
    return operator is not None and any(one.is_out for one in operator._schema.arguments)
