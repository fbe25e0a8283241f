"""The dispatcher's view of memory: live storages, with the operators and lines that made them."""

from __future__ import annotations

import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

from ...measurement.held import SAVED, Held
from ...measurement.peak_watch import PeakWatch
from ...measurement.protocol import Delta, Interval
from ...values.dispatcher import DispatchMode, past_modes
from ..autograd_engine import in_backward, running_node
from ..compile_watch import EAGER, CompileWatch
from ..started_threads import StartedThreads
from .holders import NamesHolders, holders
from .live_tensors import LiveTensors
from .tensor_origin import (
    GRADIENT,
    PARAMETER,
    Origin,
    Origins,
    is_gradient,
    is_parameter,
    user_frame,
)

_BY_CPP = torch.Tensor.__new__


def construct_past_modes(apart: Callable[[], AbstractContextManager[Any]] = past_modes) -> None:
    """Has all subclasses of ``torch.Tensor`` constructed in the context ``apart``, from now on.

    One without ``__new__``, such as ``torch.nn.attention.bias.CausalBias``, is constructed by C++
    code, which cannot use a tensor that a dispatch mode has seen.
    """

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        with apart():
            return _BY_CPP(cls, *args, **kwargs)

    def follow(cls: Any) -> None:
        if cls.__new__ is _BY_CPP:
            cls.__new__ = new

    def created(cls: Any, /, **kwargs: Any) -> None:
        super(torch.Tensor, cls).__init_subclass__(**kwargs)
        follow(cls)

    tensor: Any = torch.Tensor
    if "__init_subclass__" not in vars(tensor):
        for cls in _subclasses(tensor):
            follow(cls)
        tensor.__init_subclass__ = classmethod(created)


def _subclasses(cls: Any) -> Iterator[Any]:
    for found in cls.__subclasses__():
        yield found
        yield from _subclasses(found)


class Tracker(NamesHolders):
    """A recorder that follows storages through the dispatcher.

    It sees the tensors of a program, their operators and source lines, but not the scratch inside
    kernels; and under it compiled code runs eagerly. So its numbers explain a verdict and never
    decide it.
    """

    def __init__(self, fault: str = "") -> None:
        """``fault`` says why the dispatcher does not show tensors; empty if it does."""
        self._fault = fault
        self._mode = TrackingMode()
        self._threads = StartedThreads(lambda thread: self._mode.in_thread())
        self._compiled = CompileWatch(eager=True)

    def start(self) -> None:
        """Begins to follow new storages."""
        self._mode.begin()
        self._compiled.start()
        self._threads.start()
        self._mode.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> Interval:
        """Stops following; returns the interval. Known storages stay known."""
        self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._threads.stop()
        self._compiled.stop()
        problem = EAGER if self._compiled.noticed else None
        return replace(self._mode.interval(), problem=self._fault or problem)

    def allocation_of(self, storage: torch.UntypedStorage) -> int | None:
        """Returns the number of the allocation of a live storage."""
        return self._mode.allocation_of(storage)

    def watch(self, peak: PeakWatch) -> None:
        """Has ``peak`` see each new tensor."""
        self._mode.watch(peak)


#: The bytes of the known program's two tensors.
_TENSORS: Final = 8

#: The operator that factories such as ``torch.tensor`` call with a tensor that they made without
#: the dispatcher.
LIFT = torch.ops.aten.lift_fresh.default

_INDEX_PUT: Final = torch.ops.aten.index_put.default
_INDEX_PUT_IN_PLACE: Final = torch.ops.aten._index_put_impl_.default


class TrackingMode(DispatchMode):
    """Follows allocations and frees of storages, and their growth.

    A higher-order operator, such as uncompiled ``flex_attention``, is one operator.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        construct_past_modes()
        self._tensors = LiveTensors()
        self._alive: dict[int, tuple[int, int]] = {}  # number and bytes, by storage
        self._roles: dict[int, str] = {}  # by number
        self._forward: set[int] = set()  # the numbers of live tensors made outside backward passes
        self._origins = Origins()
        self._lock = threading.RLock()  # a program may have threads, and each may free tensors

    def begin(self) -> None:
        """Begins an interval."""
        self._tensors.begin()

    def watch(self, peak: PeakWatch) -> None:
        """Has ``peak`` see each new tensor."""
        peak.begin(partial(holders, allocation_of=self.allocation_of, running=True))
        self._tensors.watch = peak.allocated

    @property
    def delta(self) -> Delta:
        """Returns the change of the live bytes since ``begin``."""
        return self._tensors.delta

    def interval(self) -> Interval:
        """Returns the interval since ``begin``."""
        return self._tensors.interval(self.delta, allocated=self.delta)

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Follows the storages of the current thread too."""
        _push_mode(self)
        try:
            yield
        finally:
            _pop_mode()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if is_wrapped(types):
            return NotImplemented
        self._origins.note(sys._getframe(1))
        given = _plain((args, kwargs))
        foreign = {} if func is LIFT else {_key(x): x.untyped_storage().nbytes() for x in given}
        if func is _INDEX_PUT and _is_gradient_of_index():
            func, args = _INDEX_PUT_IN_PLACE, (*args, True)  # unsafe=True, as autograd passes it
        out = func(*args, **(kwargs or {}))
        made = _plain((out,))
        with self._lock:
            for tensor in (*made, *given):
                storage = tensor.untyped_storage()
                key, nbytes = storage._cdata, storage.nbytes()
                followed = self._alive.get(key)
                older = 0 if followed else foreign.get(key, 0)
                if nbytes != (followed[1] if followed else older):
                    self._follow(key, tensor, func, older)
                if is_parameter(tensor):
                    self._set_role(PARAMETER, key)
            if is_gradient():
                for tensor in made:
                    self._set_role(GRADIENT, _key(tensor))
        return out

    def allocated(self, number: int, held: Held, storage: torch.UntypedStorage) -> None:
        """Called for each new storage."""

    def allocation_of(self, storage: torch.UntypedStorage) -> int | None:
        """Returns the number of the allocation of a live storage."""
        number, _ = self._alive.get(storage._cdata, (None, 0))
        return number

    def known(self, number: int, held: Held) -> Held:
        """Returns the tensor with its present role."""
        role = self._roles.get(number, "")
        return replace(held, role=role) if role else held

    def caller(self) -> Origin:
        """Returns the place in the program that called the running operator."""
        origin = self._origins.of(sys._getframe(1))
        # A thread of autograd's engine has no line of its own.
        return origin if origin.function else origin._replace(function="backward")

    def _set_role(self, role: str, key: int) -> None:
        if key in self._alive:
            self._roles[self._alive[key][0]] = role

    def _follow(self, key: int, tensor: torch.Tensor, func: Any, older: int) -> None:
        """Follows a storage of a new size; ``older`` are its bytes from before the interval."""
        storage = tensor.untyped_storage()
        nbytes = storage.nbytes()
        if func is LIFT and not storage.resizable():  # numpy's memory
            return
        if nbytes == 0:
            self._free(key)
            self._free_older(older)
            return
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        held = Held(nbytes, shape, dtype, name_of(func), *self.caller())
        number = self._tensors.count
        self._tensors.allocate(nbytes, lambda: self.known(number, held))
        self._free(key)  # only now: a resize copies, so that both storages exist for a moment
        self._free_older(older)
        self._alive[key] = number, nbytes
        if not in_backward():
            self._forward.add(number)
        self.allocated(number, held, storage)
        weakref.finalize(storage, self._free, key).atexit = False

    def _free_older(self, nbytes: int) -> None:
        if nbytes:
            self._tensors.free_older(nbytes)

    def _free(self, key: int) -> None:
        with self._lock:
            if key not in self._alive:
                return
            number, _ = self._alive.pop(key)
            if in_backward() and number in self._forward:
                self._roles.setdefault(number, SAVED)
            self._forward.discard(number)
            self._tensors.free(number)


def is_wrapped(types: Iterable[type]) -> bool:
    """Returns True for an operator of tensors that hold others, as ``DTensor`` holds its shard.

    Such a tensor has no memory. A mode that declines it sees the operators of those that it holds.
    """
    return any(hasattr(kind, "__tensor_flatten__") for kind in types)


def name_of(func: Any) -> str:
    """Returns the name of an operator, as a report shows it."""
    name: str = getattr(func, "overloadpacket", func).__name__
    return name.strip("_")


def _is_gradient_of_index() -> bool:
    """Returns True while autograd computes the gradient of ``x[index]``, in zeros that it made.

    It puts values into them in place, but into a copy under a dispatch mode
    (``index_backward`` in torch/csrc/autograd/FunctionsManual.cpp).
    """
    node = running_node()
    return node is not None and node.name() == "IndexBackward0"


def prime() -> str:
    """Dispatches once: the first dispatch imports modules, whose frames would pin tensors.

    Returns why a mode cannot follow tensors on this torch, or "": it sees a known program's two
    tensors and their ends.
    """
    mode = TrackingMode()
    mode.begin()
    with torch.inference_mode(False), torch.enable_grad(), mode:
        x = torch.ones(1, dtype=torch.float32, device="cpu", requires_grad=True)
        x.add(1).backward()
        del x
    seen = mode.delta
    if seen.peak >= _TENSORS and not seen.final:
        return ""
    return (
        f"the dispatcher of torch {torch.__version__} shows {seen.peak} B of a program of"
        f" {_TENSORS} B, and {seen.final} B at its end"
    )


def _plain(tree: Iterable[Any]) -> list[torch.Tensor]:
    """Returns the tensors with memory in the arguments or results of an operator.

    An operator may return a tensor that holds another one, as a collective does.

    Operators take and return lists, tuples and dicts, so that PyTorch's search in trees of any
    types, at several times the cost, is not needed.
    """
    found: list[torch.Tensor] = []
    for leaf in tree:
        if isinstance(leaf, torch.Tensor):
            has_memory = leaf.layout is torch.strided and leaf.device.type != "meta"
            if has_memory and not is_wrapped((type(leaf),)):
                found.append(leaf)
        elif isinstance(leaf, (list, tuple)):
            found += _plain(leaf)
        elif isinstance(leaf, dict):
            found += _plain(leaf.values())
    return found


def _key(tensor: torch.Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key


def caller() -> str:
    """Returns the innermost line of the program."""
    return Origins().of(sys._getframe(1)).where


def raised_at(error: BaseException) -> str:
    """Returns `` at attn.py:5``, the innermost line of the program in the traceback, or ""."""
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    where = user_frame(reversed(frames)).where
    return f" at {where}" if where else ""
