"""The dispatcher's view of memory: which storages are alive, who made them and where."""

from __future__ import annotations

import sys
import traceback
import weakref
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...measurement.held import Held
from ...measurement.protocol import Interval
from ..compile_watch import CompileWatch
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


class Tracker:
    """A gauge that follows storages through the dispatcher.

    It sees the tensors of a program, their operators and source lines, but not the scratch inside
    kernels; and under it ``torch.compile`` runs eagerly. So it explains, and does not judge.
    """

    def __init__(self) -> None:
        prime()
        self._mode = TrackingMode()
        self._compiled = CompileWatch()

    def start(self) -> None:
        """Begin to follow new storages."""
        self._mode.begin()
        self._compiled.start()
        self._mode.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> Interval:
        """Stop following; storages seen so far are still known."""
        self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._compiled.stop()
        problem = EAGER if self._compiled.noticed else None
        return replace(self._mode.stretch(), problem=problem)


#: Why a tracker's numbers are not those of the program.
EAGER = "compiled code runs eagerly under a tracker"

#: What factories such as ``torch.tensor`` call, with what they made where no dispatcher saw it.
LIFT = torch.ops.aten.lift_fresh.default


class TrackingMode(TorchDispatchMode):
    """Follows the births and deaths of storages, and how they grow."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._ledger = LiveTensors()
        self._alive: dict[int, tuple[int, int]] = {}  # by storage, number and bytes
        self._roles: dict[int, str] = {}  # by number
        self._origins = Origins()

    def begin(self) -> None:
        """Count from here."""
        self._ledger.begin()

    def stretch(self) -> Interval:
        """What happened since ``begin``."""
        rise = self._ledger.rise
        return self._ledger.stretch(rise, allocated=rise)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        foreign = {} if func is LIFT else _sizes((args, kwargs))
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((out, args, kwargs)):
            if _is_plain(leaf):
                key, nbytes = _key(leaf), leaf.untyped_storage().nbytes()
                followed = self._alive.get(key)
                if nbytes != (followed[1] if followed else foreign.get(key, 0)):
                    self._take_in(key, leaf, func)
                if is_parameter(leaf):
                    self._is(PARAMETER, key)
        if is_gradient():
            for leaf in filter(_is_plain, tree_leaves(out)):
                self._is(GRADIENT, _key(leaf))
        return out

    def born(self, number: int, held: Held, storage: torch.UntypedStorage) -> None:
        """Called for each storage as it is taken in."""

    def known(self, number: int, held: Held) -> Held:
        """Returns the tensor with the role that it has by now."""
        role = self._roles.get(number, "")
        return replace(held, role=role) if role else held

    def caller(self) -> Origin:
        """Returns where in the program an operator was called."""
        origin = self._origins.of(sys._getframe(1))
        # A thread of autograd's engine has no line of its own.
        return origin if origin.function else origin._replace(function="backward")

    def _is(self, role: str, key: int) -> None:
        if key in self._alive:
            self._roles[self._alive[key][0]] = role

    def _take_in(self, key: int, tensor: torch.Tensor, func: Any) -> None:
        storage = tensor.untyped_storage()
        nbytes = storage.nbytes()
        if func is LIFT and not storage.resizable():  # numpy's memory
            return
        if nbytes == 0:
            self._died(key)
            return
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        op = func.overloadpacket.__name__.strip("_")
        held = Held(nbytes, shape, dtype, op, *self.caller())
        number = self._ledger.births
        self._ledger.born(nbytes, lambda: self.known(number, held))
        self._died(key)  # only now: what is resized is copied, and there are two of it for a moment
        self._alive[key] = number, nbytes
        self.born(number, held, storage)
        weakref.finalize(storage, self._died, key).atexit = False

    def _died(self, key: int) -> None:
        if key in self._alive:
            self._ledger.died(self._alive.pop(key)[0])


def prime() -> None:
    """Dispatch once: the first time imports much, and its frames would pin the test's tensors."""
    with torch.inference_mode(False), torch.enable_grad(), TrackingMode():
        torch.ones(1, requires_grad=True).add(1).backward()


def _is_plain(leaf: object) -> bool:
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
        return False
    return leaf.device.type != "meta"  # a meta tensor has a size, and no memory


def _sizes(tree: object) -> dict[int, int]:
    """The storages in it, by key."""
    return {
        _key(leaf): leaf.untyped_storage().nbytes() for leaf in tree_leaves(tree) if _is_plain(leaf)
    }


def _key(tensor: torch.Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key


def caller() -> str:
    """Returns the innermost line of the program."""
    return Origins().of(sys._getframe(1)).where


def raised_at(error: BaseException) -> str:
    """`` at attn.py:5``: the innermost line of the program in its traceback; empty if none is."""
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    where, _ = user_frame(reversed(frames))
    return f" at {where}" if where else ""
