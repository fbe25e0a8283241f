"""The two sides of a simulation: the mode that runs operators, and the observer that it reports to.

Fake tensors know their mode by this protocol alone, and the mode its observer, so that none of
their modules imports another in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...errors import CannotSimulate
from .cached_op import CachedOp, CachedOutput
from .host_tensors.refusals import OF_ELEMENTS, Refusal
from .op_plan import AllocationPlan

if TYPE_CHECKING:
    import torch


class DispatchedOp(NamedTuple):
    """An operator that ran, with its outputs."""

    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    out: Any
    """A tensor, or tensors in tuples and lists."""
    in_place: bool
    """True if the operator works in place on a plain tensor: its output takes over the memory of
    its first argument."""
    cached: CachedOp | None
    """The cache entry of the call."""


class Heard(Protocol):
    """Hears of the operators that a call of the program runs."""

    def note(self, op: DispatchedOp) -> None:
        """Notes an operator that ran; keeps no tensor of it alive."""


class Observer(Protocol):
    """Receives the events of a fake mode, and makes the errors that the mode raises."""

    traced: bool
    """True if modules and roles of tensors are searched for."""

    def after_op(self, op: DispatchedOp) -> None:
        """Counts the memory of an operator that ran."""

    def after_new(
        self,
        func: Any,
        args: Sequence[Any],
        out: Any,
        made: CachedOutput,
        plan: AllocationPlan | None,
    ) -> None:
        """Counts the memory of an operator that made the storage of ``out``; None: that alone."""

    def record_stream(self, tensor: torch.Tensor, stream: int) -> None:
        """Records that another stream uses the tensor."""

    def mark_unknown(self, op: str) -> None:
        """Records that no model knows what ``op`` allocates."""

    def no_data_error(self, call: str = "", why: str = "") -> CannotSimulate:
        """Returns the error for a call that reads values which are not known."""

    def value(self, tensor: torch.Tensor, call: str, *, shared: bool = False) -> torch.Tensor:
        """Returns the values of a tensor that the program reads by ``call``, on the host.

        If ``shared``, it is the tensor's memory, which the program may write; else not to change.
        """

    def refused(self, text: str) -> CannotSimulate:
        """Returns the error for what no simulation can run, which is why nothing is enforced."""

    def raised(self, error: BaseException) -> None:
        """Keeps the text of the error of an operator: C++ code may swallow it."""

    def assumed(self, assumption: str) -> None:
        """Records that the program reads a value that rests on an assumption."""

    def address(self, tensor: torch.Tensor) -> int:
        """Returns the address of a tensor's first element."""

    def reduced(self, tensor: torch.Tensor, protocol: int) -> Any:
        """Returns what ``pickle`` writes of a tensor."""

    def mixed_devices_error(self, func: Any, refusal: Refusal = OF_ELEMENTS) -> BaseException:
        """Returns the error for an operator that got tensors of the host and of the device."""

    def device_named(self) -> None:
        """Records that the program names the device."""

    def to_fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the fake that stands for a tensor from outside the window."""


class FakeMode(Protocol):
    """The mode that a fake tensor belongs to."""

    observer: Observer
    running: bool
    """True while a program runs in the mode."""
    in_kernel_invocation: bool
    """True while PyTorch computes an operator on ``meta``."""
    torch_code: dict[int, tuple[CodeType, bool]]
    """Answers of ``asked_by_torch``."""
