"""Collectives of simulated tensors: they move nothing, and take the memory that NCCL's group takes.

The operators are those of torch/csrc/distributed/c10d/Ops.cpp. What ``ProcessGroupNCCL`` allocates
and how long it keeps tensors is in ProcessGroupNCCL.cpp: the result of lists of tensors passes
through one flat tensor, and a collective that the program does not wait for at once keeps its
inputs until it does, and its outputs as long as the work lives. From PyTorch 2.15 on, another class
serves NCCL: it has no flat tensor, and keeps the tensor of its first barrier.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from ...torch_releases import minor_version
from ...values.notes import leaves
from ..ranks.collective_rules import group_of
from ..ranks.collective_values import CollectiveValues
from ..ranks.fake_group import FAKE
from .pytorch_device.kernels import Run

if TYPE_CHECKING:
    from .operators import Operators


def collective_kernels(operators: Operators) -> Mapping[Any, Run]:
    """Returns the kernels by operator; what runs is the collectives of the current simulation.

    Those of ``_c10d_functional`` are C++ code that calls others, but for the one that waits.
    """
    known = Collectives(_unheard, operators.maker.is_here).replacements()
    return {
        op: partial(_run, operators, op)
        for op in known
        if op.namespace == "c10d" or "wait_tensor" in op.name()
    }


def _run(operators: Operators, op: Any, *args: Any, **kwargs: Any) -> Any:
    return operators.current.collectives[op](*args, **kwargs)


def _unheard(_: str) -> None:
    """Hears of no assumption: nothing runs."""


if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from ...values.tape import Tape

#: True if lists of tensors pass through one tensor (``_register_builtin_nccl_backend``).
_STAGES: Final = (
    minor_version(torch.__version__) < (2, 15) or os.environ.get("TORCH_DIST_USE_NCCL2") == "0"
)
_EXPLICIT: Final = torch._C.DispatchKey.CompositeExplicitAutograd
_KEPT: Final = "_attnmem_wait"
_is_of_c10d: Final = re.compile("_?c10d").match


class _Outputs(list[torch.Tensor]):
    """What the work of a collective holds as its result, and what it holds besides."""

    def __init__(self, outputs: Sequence[torch.Tensor], inputs: Sequence[Any], flat: Any) -> None:
        super().__init__(outputs)
        self.inputs = [*inputs]
        self.flat = flat


class Collectives:
    """The collectives of one simulation."""

    def __init__(self, on_host: Callable[[str], None], is_here: Callable[[Any], bool]) -> None:
        self._tape: Tape
        self._unobserved: Callable[[], AbstractContextManager[None]]
        self._is_here = is_here
        self._on_host = on_host
        self._values: CollectiveValues | None = None
        self._signals: dict[str, torch.Tensor] = {}
        """The tensors of barriers, by group."""
        self._pending: dict[int, weakref.ref[_Outputs]] = {}
        """What collectives hold until the program waits, by the address of an output's storage."""

    def follow(self, tape: Tape, unobserved: Callable[[], AbstractContextManager[None]]) -> None:
        """Notes values on a tape; ``unobserved`` is the context of operators without memory."""
        self._tape, self._unobserved = tape, unobserved

    def replacements(self) -> Mapping[Any, Callable[..., Any]]:
        """Returns what runs each collective, by operator."""
        if not dist.is_available():
            return {}
        _let_go_at_wait()
        table: dict[Any, Callable[..., Any]] = {}
        # Modules of PyTorch that are imported later define more of them.
        for name in filter(_is_of_c10d, torch._C._dispatch_get_all_op_names()):
            namespace, _, op_name = name.partition("::")
            packet, _, overload = op_name.partition(".")
            if namespace == "c10d":
                op = getattr(getattr(torch.ops.c10d, packet), overload or "default")
                table[op] = partial(self._run, op)
            elif namespace == "_c10d_functional" and _has_cpp_code(name):
                op = getattr(getattr(torch.ops._c10d_functional, packet), overload or "default")
                table[op] = self._waited if packet == "wait_tensor" else partial(_in_cpp, op)
        return table

    def restart(self) -> None:
        """Begins another program, which may be another rank."""
        self._values = None
        self._pending.clear()
        self._signals.clear()

    def _run(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        args = _all_arguments(op, args, kwargs)
        name = op.overloadpacket.__name__
        if self._values is None:
            self._values = CollectiveValues(self._tape, self._on_host)
        device = any(map(self._is_here, leaves(args))) or name == "barrier"
        nccl = device and _is_of_nccl(args)
        flat = self._staged(name, args) if nccl else None
        with self._unobserved():
            self._values.note(op, args)
        asynchronous = _argument(op, args, "async_op")
        kept = asynchronous and nccl
        work = self._work(name, args, flat) if kept else _work_of(_Outputs((), (), None))
        returned = [str(one.type) for one in op._schema.returns]
        if not returned:
            return None
        if len(returned) == 1:
            return work
        return args[0], work

    def _staged(self, name: str, args: tuple[Any, ...]) -> Any:
        """Returns what NCCL's group allocates: for a list of equal tensors, a flat one."""
        if name == "barrier":
            group = group_of(args)
            signal = self._signals.get(group.name if group else "")
            if signal is None:
                signal = torch.empty(1, dtype=torch.float32, device="cuda")
            if group is not None and not _STAGES:
                self._signals[group.name] = signal
            return signal
        many = {"allgather_": args[0], "reduce_scatter_": args[1]}.get(name)
        if many is None or not _STAGES:
            return None
        first, *others = many[0]
        if any(other.shape != first.shape for other in others):
            return None
        return torch.empty((len(many[0]), *first.shape), dtype=first.dtype, device="cuda")

    def _work(self, name: str, args: tuple[Any, ...], flat: Any) -> Any:
        tensors = [tensor for tensor in leaves(args[:2]) if self._is_here(tensor)]
        outputs = [tensor for tensor in leaves(args[:1]) if self._is_here(tensor)]
        inputs = [tensor for tensor in tensors if all(tensor is not other for other in outputs)]
        if name == "allgather_":
            kept = _Outputs(outputs, inputs, flat)
        else:
            kept = _Outputs(outputs, [*inputs, flat], None)
        for tensor in outputs:
            self._pending[tensor.untyped_storage()._cdata] = weakref.ref(kept)
        return _work_of(kept)

    def _waited(self, tensor: Any) -> Any:
        """Waits for the collective that writes a tensor."""
        kept = self._pending.pop(tensor.untyped_storage()._cdata, None)
        outputs = None if kept is None else kept()
        if outputs is not None:
            outputs.inputs.clear()
        return _in_cpp(torch.ops._c10d_functional.wait_tensor.default, tensor)


def _let_go_at_wait() -> None:
    """Has a wait of the program's let go of a collective's inputs."""
    work: Any = dist.Work
    if hasattr(work, _KEPT):
        return
    setattr(work, _KEPT, True)
    original = work.wait

    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        waited = original(self, *args, **kwargs)
        if type(self) is dist.Work:  # of a future
            outputs = self.get_future().value()
            if type(outputs) is _Outputs:
                outputs.inputs.clear()
        return waited

    work.wait = wait


def _work_of(outputs: _Outputs) -> Any:
    """Returns a work that is done, and holds the outputs as long as C++ code holds it."""
    future: Any = torch.futures.Future()
    future.set_result(outputs)
    return c10d._create_work_from_future(future).boxed()  # type: ignore[attr-defined]


def _is_of_nccl(args: tuple[Any, ...]) -> bool:
    """Returns True if the program chose NCCL for its group, and not a group that takes nothing."""
    for arg in args:
        if isinstance(arg, torch.ScriptObject) and "ProcessGroup" in str(arg):
            name = str(dist.get_backend(dist.ProcessGroup.unbox(arg)))
            return name != "gloo" and FAKE not in name
    return False


def _all_arguments(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    rest = op._schema.arguments[len(args) :]
    return (*args, *(kwargs.get(one.name, one.default_value) for one in rest))


def _argument(op: Any, args: tuple[Any, ...], name: str) -> Any:
    for one, value in zip(op._schema.arguments, args, strict=True):
        if one.name == name:
            return value
    return True


def _has_cpp_code(name: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeExplicitAutograd"))


def _in_cpp(op: Any, *args: Any, **kwargs: Any) -> Any:
    return op._op_dk(_EXPLICIT, *args, **kwargs)
