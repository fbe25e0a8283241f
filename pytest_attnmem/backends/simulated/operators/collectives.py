"""Collectives of simulated tensors: they move nothing, and take the memory that NCCL's group takes.

The operators are those of torch/csrc/distributed/c10d/Ops.cpp. What ``ProcessGroupNCCL`` allocates
and how long it keeps tensors is in ProcessGroupNCCL.cpp: the result of lists of tensors passes
through one flat tensor, and a collective that the program does not wait for at once keeps its
inputs until it does, and its outputs as long as the work lives. From PyTorch 2.15 on, another class
serves NCCL: it has no flat tensor, and keeps the tensor of its first barrier.

A build for the host has no NCCL, so PyTorch's fake process group takes its name, and no clock of
CUDA's, which only the log of DistributedDataParallel reads.
"""

from __future__ import annotations

import os
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial, wraps
from importlib import import_module
from io import BytesIO
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]

from ....torch_releases import minor_version
from ....values.dispatcher import operator_names
from ....values.notes import leaves
from ...import_watch import after_import
from ...ranks.collective_rules import group_of
from ...ranks.collective_values import CollectiveValues
from ...ranks.lone_rank import FAKE, HOST, fake_in_place_of, lone_ranks
from ..patched import Patches
from ..pytorch_device.kernels import Run

if TYPE_CHECKING:
    from ....values.tape import Tape
    from .operators import Operators


def collective_kernels(operators: Operators) -> Mapping[Any, Run]:
    """Returns the kernels by operator; what runs is the collectives of the current simulation.

    Those of ``_c10d_functional`` are C++ code that calls others, but for the one that waits.
    """
    return {op: partial(_run, operators, op) for op in _operators()}


def _operators() -> Iterator[Any]:
    if not dist.is_available():
        return
    # Modules of PyTorch that are imported later define more of them.
    for name in filter(_is_of_c10d, operator_names()):
        namespace, _, op_name = name.partition("::")
        packet, _, overload = op_name.partition(".")
        yield getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _run(operators: Operators, op: Any, *args: Any, **kwargs: Any) -> Any:
    return operators.current.collectives[op](*args, **kwargs)


#: True if lists of tensors pass through one tensor (``_register_builtin_nccl_backend``).
_STAGES: Final = (
    minor_version(torch.__version__) < (2, 15) or os.environ.get("TORCH_DIST_USE_NCCL2") == "0"
)
_NCCL: Final = "nccl"
_NCCL_VERSION: Final = (2, 29, 7)  # that of PyTorch 2.13 for CUDA
_SHOWN: Final = "_attnmem_simulated_device"
_KEPT: Final = "_attnmem_simulated"
_C10D: Final = "torch.distributed.distributed_c10d"
_EXPLICIT: Final = torch.DispatchKey.CompositeExplicitAutograd
_is_of_c10d: Final = re.compile("c10d::|_c10d_functional::wait_tensor$").match


class _Outputs(list[torch.Tensor]):
    """What the work of a collective holds as its result, and what it holds besides."""

    def __init__(self, outputs: Sequence[torch.Tensor], inputs: Sequence[Any], flat: Any) -> None:
        super().__init__(outputs)
        self.inputs = [*inputs]
        self.flat = flat


class Collectives:
    """The collectives of one simulation."""

    def __init__(
        self, tape: Tape, on_host: Callable[[str], None], is_here: Callable[[Any], bool]
    ) -> None:
        self._tape = tape
        self._is_here = is_here
        self._on_host = on_host
        self._values: CollectiveValues | None = None
        self._signals: dict[str, torch.Tensor] = {}
        """The tensors of barriers, by group."""
        self._pending: dict[int, weakref.ref[_Outputs]] = {}
        """What collectives hold until the program waits, by the address of an output's storage."""

    def replacements(self) -> Mapping[Any, Callable[..., Any]]:
        """Returns what runs each collective, by operator."""
        if dist.is_available():
            _let_go_at_wait()
        return {
            op: partial(self._run, op) if op.namespace == "c10d" else self._waited
            for op in _operators()
        }

    def _run(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        expected = op._schema.arguments
        args = (
            *args,
            *(kwargs.get(one.name, one.default_value) for one in expected[len(args) :]),
        )
        name = op.overloadpacket.__name__
        if self._values is None:  # a build may lack torch.distributed
            self._values = CollectiveValues(self._tape, self._on_host)
        device = any(map(self._is_here, leaves(args))) or name == "barrier"
        nccl = device and _is_of_nccl(args)
        flat = self._staged(name, args) if nccl else None
        self._values.note(op, args)
        named = {one.name: value for one, value in zip(expected, args, strict=True)}
        kept = nccl and named.get("async_op", True)
        work = self._work(name, args, flat) if kept else _work_of(_Outputs((), (), None))
        returned = len(op._schema.returns)
        return (args[0], work) if returned > 1 else work if returned else None

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
        return torch.ops._c10d_functional.wait_tensor.default._op_dk(_EXPLICIT, tensor)


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
    return _create_work_from_future(future).boxed()


def _is_of_nccl(args: tuple[Any, ...]) -> bool:
    """Returns True if the program chose NCCL for its group, and not a group that takes nothing."""
    for arg in args:
        if isinstance(arg, torch.ScriptObject) and "ProcessGroup" in str(arg):
            name = str(dist.get_backend(dist.ProcessGroup.unbox(arg)))
            return name != "gloo" and FAKE not in name
    return False


def follow_distributed() -> None:
    """Has PyTorch take the fake group for NCCL's, as soon as it is imported."""
    after_import(_C10D, _without_nccl)


def distributed_patches() -> Patches:
    """Returns the replacements for a program that sees the device, by owner and name."""
    if not dist.is_available():
        return {}
    c10d: Any = import_module(_C10D)
    found: dict[tuple[Any, str], Any] = {
        **{(owner, "is_nccl_available"): lambda: True for owner in (c10d, dist)},
        **{
            (owner, "init_process_group"): _without_device(c10d.init_process_group)
            for owner in (c10d, dist)
        },
        (c10d, "_object_to_tensor"): _object_to_tensor,
        (c10d, _SHOWN): True,
        (c10d.Backend, "backend_type_map"): _types(c10d),
        (dist.Logger, "set_runtime_stats_and_log"): lambda logger: None,  # type: ignore[attr-defined]
    }
    if not hasattr(torch._C, "_nccl_version"):  # a build for the host
        found[torch.cuda.nccl, "version"] = lambda: _NCCL_VERSION
        found[c10d, "default_pg_nccl_timeout"] = timedelta(minutes=10)
    return found


def _types(c10d: Any) -> dict[str, Any]:
    """Returns the types of backends: those that the fake group takes the place of have its type."""
    fakes = (_NCCL, HOST) if lone_ranks(c10d) else (_NCCL,)
    custom = c10d.ProcessGroup.BackendType.CUSTOM
    return {**c10d.Backend.backend_type_map, **dict.fromkeys(fakes, custom)}


def _without_device(original: Any) -> Any:
    """Returns ``init_process_group`` for groups that are not connected, nor split from another."""

    @wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        return original(*args, **kwargs)

    return init_process_group


def _object_to_tensor(
    obj: Any, device: Any, group: Any, weights_only: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the pickled object and its size; PyTorch gives a tensor the memory of a storage."""
    c10d: Any = sys.modules[_C10D]
    file = BytesIO()
    if weights_only:
        torch.save(obj, file)
    else:
        c10d._pickler(file).dump(obj)
    content = torch.tensor([*file.getvalue()], dtype=torch.uint8, device="cpu").to(device)
    return content, torch.tensor([content.numel()], dtype=torch.int64, device="cpu").to(device)


def _without_nccl(module: ModuleType) -> None:
    if not hasattr(module, _KEPT):
        setattr(module, _KEPT, True)
        fake_in_place_of(_NCCL, module, lambda: getattr(module, _SHOWN, False))
