"""Notes each operator of the null device on a tape, below autograd and without a dispatch mode.

A dispatch mode would change what is measured: autograd does not add gradients in place under it.
So the operators come here by a fallback of PyTorch's dispatcher, for a key that PyTorch has for C++
fake tensors and does not use. The key is included for a thread and the threads of its backward
passes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from ...nulldevice.contents import ask, foreign_launches, uploaded
from ...values.dispatcher import excluding, key_named
from ...values.host_operators.triton_kernels import KERNEL, Launch
from ...values.notes import leaves
from ...values.tape import Tape
from ..started_threads import StartedThreads
from ..tracing.dispatch_tracker import construct_past_modes
from . import jit
from .composite_operators import CompositeOperators, note_operators, without_values
from .failed_calls import end_failed_prints
from .fake_modes import exclude, note_constants, pass_by_higher_order
from .reads import Reads
from .storages import DeviceStorages
from .triton_arguments import Expected

_KEY = "Fake"
_KEPT = "_attnmem_noting"
_LIFT = torch.ops.aten.lift_fresh.default
_RESIZE = torch.ops.aten.resize_.default
_FOREIGN = "a kernel that is not PyTorch's ran, and nobody knows what it wrote"


class _Thread(threading.local):
    """What a thread does now."""

    running = False
    """True inside an operator, whose results are noted when it ends."""
    expected: Expected | None = None
    trying = False

    @contextmanager
    def having(self, name: str, value: object) -> Iterator[None]:
        """Has an attribute for as long as the body runs."""
        before = getattr(self, name)
        setattr(self, name, value)
        try:
            yield
        finally:
            setattr(self, name, before)


class Noting:
    """Sees each operator; keeps a tape of those on the device, and answers reads from it."""

    def __init__(self, limit: int, *, must_know: bool = True) -> None:
        self.storages = DeviceStorages()
        self.tape = Tape(self.storages, limit, by_address=True)
        self.reads = Reads(self.tape, must_know)
        self._collectives: Any = None
        self._launches = foreign_launches()
        self._noted_launches = self._launches.value
        self._composites = CompositeOperators()
        self._thread = _Thread()
        key = key_named(_KEY)
        self._keys = torch.DispatchKeySet(key)
        self._guard = torch._C._IncludeDispatchKeyGuard(key)
        self._threads = StartedThreads(lambda _: torch._C._IncludeDispatchKeyGuard(key))
        self._library = torch.library.Library("_", "IMPL")
        self._aten = torch.library.Library("aten", "IMPL")

    def start(self) -> None:
        """Begins to note, for the rest of the process."""
        setattr(torch.library, _KEPT, self)
        self.storages.follow()
        for name in without_values():
            self._aten.impl(name, torch.library.fallthrough_kernel, _KEY)
        self._libraries = note_operators(self._library, self._dispatched, _KEY)
        exclude(self._keys)
        construct_past_modes(self._unnoted)
        pass_by_higher_order(key_named(_KEY))
        note_constants(self._keys)
        end_failed_prints()
        self._guard.__enter__()
        ask(self._copy_known)
        self._threads.start()
        torch.UntypedStorage.resize_ = self._noting_resize(torch.UntypedStorage.resize_)  # type: ignore[method-assign]

    @contextmanager
    def _unnoted(self) -> Iterator[None]:
        with torch._C._DisableTorchDispatch(), excluding(self._keys):
            yield

    def _noting_resize(self, original: Callable[[torch.UntypedStorage, int], Any]) -> Any:
        """Returns ``UntypedStorage.resize_``, which is no operator: a storage keeps its bytes."""

        def resize_(storage: torch.UntypedStorage, size: int) -> Any:
            if storage.device.type != "cuda":
                return original(storage, size)
            with self._unnoted():
                self.storages.drop_freed()
                call = self.tape.begin(_RESIZE, (_bytes_of(storage),), {})
                result = original(storage, size)
                self.storages.drop_freed()
                self.tape.end(call, _bytes_of(storage))
            return result

        return resize_

    def _copy_known(self, into: int, address: int, size: int) -> bool:
        """Answers a read past the dispatcher, as by ``torch.tensor`` of tensors.

        An operator that runs may have written there already, so nothing is known then.
        """
        if self._thread.running:
            return False
        with self._unnoted():
            self.find_foreign_launches()
            self.storages.drop_freed()
            found = self.storages.slot_at(address)
            return found is not None and self.reads.copy_known(*found, into, size)

    @contextmanager
    def past_dispatcher(self) -> Iterator[Tape]:
        """Gives the tape, to note what code wrote that runs no operator; what is inside is not."""
        with excluding(self._keys), torch._C._AutoDispatchBelowAutograd():
            self.storages.drop_freed()
            yield self.tape

    def find_foreign_launches(self) -> None:
        """Forgets all values if a kernel ran that is unknown and wrote nobody knows where."""
        if self._launches.value != self._noted_launches:
            self._noted_launches = self._launches.value
            self.tape.lose_all(_FOREIGN)

    def lost(self, tensors: Any, reason: str) -> None:
        """Records that a kernel, which was launched just now, may have written these tensors.

        A kernel inside an operator of PyTorch's writes the operator's results, which are noted
        (torch/_native/ops has such operators).
        """
        self.storages.drop_freed()
        if not self._thread.running:
            for tensor in tensors:
                self.tape.lose(tensor, reason)
        self._noted_launches = self._launches.value

    def lost_all(self, reason: str) -> None:
        """Records that a kernel, which was launched just now, may have written any tensor."""
        if not self._thread.running:
            self.tape.lose_all(reason)

    def expecting(self, launch: Expected | None) -> AbstractContextManager[None]:
        """Names the launch that the calls inside will make; None if it is not understood."""
        return self._thread.having("expected", launch)

    def trying(self) -> AbstractContextManager[None]:
        """Notes no launch inside: Triton's autotuner tries a kernel."""
        return self._thread.having("trying", True)

    @contextmanager
    def launching(self, grid: tuple[int, ...]) -> Iterator[bool]:
        """Notes the expected launch while its kernel is launched; gives False if there is none."""
        expected = self._thread.expected
        if expected is None or self._thread.running:
            yield False
            return
        self.storages.drop_freed()
        if self._thread.trying:
            yield True
        else:
            left = self.tape.replay.left
            launch = Launch(expected.function, grid, expected.arguments, left)
            call = self.tape.begin(KERNEL, (expected.tensors, launch), {})
            yield True
            self.tape.end(call, None)
        self._noted_launches = self._launches.value

    def as_one(
        self, func: Any, args: Callable[[], Any], run: Callable[[], Any], views: Sequence[bool]
    ) -> Any:
        """Returns what ``run`` returns; notes all that it does as one operator.

        ``args`` makes the operator's arguments: to hold them here would keep tensors alive that
        the run lets go. ``views`` says which results are arguments, or views of one.
        """
        with excluding(self._keys):
            self.find_foreign_launches()
            self.storages.drop_freed()
            call = self.tape.begin(func, args(), {})
            with self._thread.having("running", True):
                out = self.reads.run_unanswered(run)
            self.storages.drop_freed()
            for result, is_view in zip(out, views, strict=True):
                if isinstance(result, torch.Tensor) and not is_view:
                    self.tape.renew(call, result)
            self.tape.end(call, out)
            self._noted_launches = self._launches.value
            return out

    def _dispatched(self, keys: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        if jit.traces():
            if jit.traces_inside():
                return func.redispatch(keys - self._keys, *args, **kwargs)
            with jit.untraced():
                return self._dispatched(keys, func, *args, **kwargs)
        if keys.has(torch.DispatchKey.Python) and not torch._C._len_torch_dispatch_stack():
            out = _by_class(func, args, kwargs)
            if out is not NotImplemented:
                return out
        if self._composites.includes(func):
            out = self._composites.call(func, keys - self._keys, args, kwargs)
            if func.namespace == "c10d":
                self._collected(func, args, out)
            return out
        with excluding(self._keys):
            if not _is_on_device(args, kwargs):
                self.tape.run_on_host(func, args, kwargs)
                return func(*jit.as_tensors(func, args), **kwargs)
            self.find_foreign_launches()
            self.storages.drop_freed()
            if func is _LIFT:
                self._lift(args[0])
                return func(*args, **kwargs)
            call = self.tape.begin(func, args, kwargs)
            self._thread.running = True
            try:
                out = self.reads.run_answered(func, args, kwargs)
            finally:
                self._thread.running = False
                self._noted_launches = self._launches.value
            self.storages.drop_freed()  # what the operator freed inside, and allocated again
            self.tape.end(call, out)
            return out

    def _collected(self, func: Any, args: tuple[Any, ...], out: Any) -> None:
        """Notes what a collective of a process group wrote."""
        # A torch may lack torch.distributed.
        from ..ranks.collective_values import CollectiveValues, release

        if self._collectives is None:
            self._collectives = CollectiveValues(self.tape, self.reads.assume)
        with self.past_dispatcher():
            self._collectives.note(func, args)
            release(out)

    def _lift(self, tensor: torch.Tensor) -> None:
        """Takes the values of a tensor that ``torch.tensor`` made below the dispatcher.

        Of a storage it makes a tensor that shares it, and its values are noted.
        """
        if self.storages.has(tensor):
            return
        values = torch.empty_like(tensor, device="cpu")
        if values.nbytes and uploaded(tensor.data_ptr(), values.data_ptr(), values.nbytes):
            self.tape.put(tensor, values)


def noting() -> Noting | None:
    """Returns what notes the operators of this process, or None."""
    found: Noting | None = getattr(torch.library, _KEPT, None)
    return found


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _by_class(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns what a class of tensors answers by other operators, as DTensor does, if there is one.

    From 2.13 on, PyTorch asks the classes before it comes here. Where a ``TorchDispatchMode`` is
    active, it comes before the classes, so nobody asks them here.
    """
    kinds = {type(leaf): None for leaf in leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
    plain = torch.Tensor.__torch_dispatch__
    asked = tuple(kind for kind in kinds if kind.__torch_dispatch__ is not plain)
    answers = (kind.__torch_dispatch__(func, asked, args, kwargs) for kind in asked)
    return next((one for one in answers if one is not NotImplemented), NotImplemented)


def _is_on_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Returns True if the operator has a tensor on the device, or makes one."""
    for arg in args:
        if isinstance(arg, torch.Tensor):
            if arg.is_cuda:
                return True
        elif type(arg) in (list, tuple):
            for item in arg:
                if isinstance(item, torch.Tensor) and item.is_cuda:
                    return True
        elif type(arg) is torch.device and arg.type == "cuda":  # of nested tensors
            return True
    for name, arg in kwargs.items():
        device = arg.device if isinstance(arg, torch.Tensor) else arg if name == "device" else None
        if device is not None and torch.device(device).type == "cuda":
            return True
    return False
