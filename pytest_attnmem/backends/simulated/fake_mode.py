"""The world of a simulated device: operators run without data, and somebody is told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from sys import getrefcount
from types import CodeType, MappingProxyType
from typing import Any, Protocol

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
    UnsupportedOperatorException,
)

from ...errors import CannotSimulate
from .fake_tensor import CUDA, DEVICE, DEVICE_OF, UNPLACED, SimulatedTensor, seen_by_cpp, simulate
from .op_cache import CachedOp, OpCache
from .op_kinds import in_cpp, is_composite, is_factory, is_for_host

_aten = torch.ops.aten
_ADD, _ADD_ = _aten.add.Tensor, _aten.add_.Tensor
_INDEX_PUT = _aten.index_put.default

#: What autograd's formulas do in place unless a tensor is a subclass, by node and operator
#: (torch/csrc/autograd/FunctionsManual.cpp).
_CROSS_ENTROPY = "BinaryCrossEntropyWithLogitsBackward0"
_IN_PLACE = MappingProxyType(
    {
        ("IndexBackward0", _INDEX_PUT): _aten._index_put_impl_.default,
        (_CROSS_ENTROPY, _aten.sub.Tensor): _aten.sub_.Tensor,
        (_CROSS_ENTROPY, _aten.mul.Tensor): _aten.mul_.Tensor,
    }
)
_OF_BACKWARD = frozenset({_ADD, *(func for _, func in _IN_PLACE)})

#: Their backward looks at values, and takes another way on a subclass, which has none.
_LOOKS_BACK = frozenset(
    {
        *(_aten.prod.default, _aten.prod.dim_int, _aten.cumprod.default),
        *(_aten.max.default, _aten.min.default, _aten.median.default, _aten.nanmedian.default),
    }
)


class Observer(Protocol):
    """Who is told of what happens in a world."""

    def ran(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        out: Any,
        inherits: bool,
        recalled: CachedOp | None,
    ) -> None:
        """An operator returned ``out``. If it ``inherits``, what it returned takes the place of
        the first argument, which a plain tensor would have been changed to."""

    def used_on(self, tensor: torch.Tensor, stream: int) -> None:
        """Another stream uses the tensor."""

    def note(self, what: str) -> None:
        """Nobody knows what ``what`` allocates."""

    def refusal(self, what: str = "") -> CannotSimulate:
        """The error for ``what`` was asked of a tensor without data."""

    def mixture(self, func: Any) -> CannotSimulate:
        """Returns the error for an operator that got tensors of the host and of the device."""

    def named(self) -> None:
        """The program names the device."""

    def adopted(self, tensor: torch.Tensor) -> torch.Tensor:
        """The fake that stands for a tensor from outside."""


class SimulatedFakeMode(FakeTensorMode):
    """Where operators run without data."""

    supports_higher_order_operators = True  # they are refused in one line

    def __init__(
        self,
        observer: Observer,
        replacements: Mapping[Any, Callable[..., Any]],
    ) -> None:
        super().__init__()
        self.observer = observer
        self.running = False
        """Whether a program runs in it."""
        self.calls = 0
        """How deep a call of the program's own, into PyTorch's Python interface, is."""
        self.placing = False  # whether the program names devices; else every tensor is on CUDA
        self.unplaced = False  # whether a tensor is on CUDA because the program named no device
        self.told = 0  # how deep the calls of factories are that were given a device
        self._replacements = replacements
        self._depth = 0
        self._composite: dict[Any, bool] = {}
        self._factory: dict[Any, bool] = {}
        self._avoided: tuple[Any, ...] = ()
        self._unshared: Any = None
        self._recall = OpCache(self)
        self.kind = SimulatedTensor
        self.askers: dict[CodeType, bool] = {}  # code that asked for a kind → is it torch's

    @property
    def avoid_device_init(self) -> bool:
        """There is no device to be initialised, whatever ``torch.cuda.is_available`` says."""
        return True

    def _dispatched(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is DEVICE_OF:
            return seen_by_cpp(args[0])
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if device is not None and device.type != "cpu":
            kwargs = {**kwargs, "device": CUDA if self.placing else UNPLACED}
        if self._depth:
            return self.dispatch(func, types, args, kwargs)
        if not (self.told or self.placing) and self._is_stray(func, args, kwargs):
            return self._put_on_device(func, types, args, kwargs)
        composite = self._composite.get(func)
        if composite is None:
            if isinstance(func, HigherOrderOperator):
                raise self._nothing_known(func)
            composite = func in self._replacements or is_composite(func)
            self._composite[func] = composite
        if composite:  # as it comes in inference mode
            with self:
                return self._replacements.get(func, partial(in_cpp, func))(*args, **kwargs)
        with torch._C.DisableTorchFunction():  # what runs in here is not the program
            return self._run(func, types, args, kwargs)

    def _run(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in self.lift_fns:
            for arg in args:
                if not self._is_ours(arg):
                    args = tuple(map(self._ours, args))
                    break
        if func in _OF_BACKWARD and torch._C._current_graph_task_id() != -1:
            func, args = self._as_backward_would(func, args, kwargs)
        if func in _LOOKS_BACK and torch.is_grad_enabled() and args[0].requires_grad:
            self.observer.note(f"the backward of {func}")
        recalled, key = None, self._recall.key(func, args, kwargs)
        if key is not None:
            recalled = self._recall.find(key)
            if recalled is not None:
                out = self._recall.again(recalled, args)
                self.observer.ran(func, args, kwargs, out, func in self._avoided, recalled)
                return out
        self._depth += 1
        try:
            out = self.dispatch(func, types, args, kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            raise self.observer.refusal() from None
        except FakeTensorDeviceMismatchError:
            raise self.observer.mixture(func) from None
        except UnsupportedOperatorException:
            raise self._nothing_known(func) from None
        finally:
            self._depth -= 1
        for leaf in out if isinstance(out, (tuple, list)) else (out,):
            for tensor in leaf if isinstance(leaf, (tuple, list)) else (leaf,):
                if type(tensor) is FakeTensor:
                    simulate(tensor, (args, kwargs))
        if key is not None:
            recalled = self._recall.remember(key, args, out)
        self.observer.ran(func, args, kwargs, out, func in self._avoided, recalled)
        return out

    def _nothing_known(self, func: Any) -> CannotSimulate:
        return self.observer.refusal(f"{func}, of which nothing is known without data,")

    def _is_stray(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Returns whether C++ code makes a tensor of some size without a device."""
        factory = self._factory.get(func)
        if factory is None:
            factory = self._factory[func] = is_factory(func)
        if factory:
            return not is_for_host(args, kwargs)
        return func in self.lift_fns and bool(args[0].dim())

    def _put_on_device(
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs a factory of C++ code that has no device, and puts its tensor on the device."""
        self.unplaced = True
        if func not in self.lift_fns:
            kwargs = {**kwargs, "device": UNPLACED}
        with torch._C.DisableTorchFunction():
            made = self._run(func, types, args, kwargs)
            if func not in self.lift_fns:
                return made
            return self._run(_aten._to_copy.default, types, (made,), {"device": UNPLACED})

    def _is_ours(self, arg: Any) -> bool:
        if isinstance(arg, torch.Tensor):
            if type(arg) is SimulatedTensor:
                return arg.__dict__["fake_mode"] is self
            return getattr(arg, "fake_mode", None) is self
        if isinstance(arg, (list, tuple)):
            return all(map(self._is_ours, arg))
        return True

    def _ours(self, arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return arg if self._is_ours(arg) else self.observer.adopted(arg)
        if isinstance(arg, (list, tuple)):
            return type(arg)(map(self._ours, arg))
        return arg

    def _as_backward_would(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, tuple[Any, ...]]:
        """The operator that autograd would call if the tensors were no subclass."""
        if kwargs or self.calls or torch.is_grad_enabled():
            return func, args
        if func is _ADD:
            return self._accumulation(args)
        node = torch._C._current_autograd_node()
        instead = _IN_PLACE.get((node.name() if node is not None else "", func))
        if instead is None:
            return func, args
        if func is _INDEX_PUT:
            return instead, (*args, True)  # which is safe, as autograd knows
        return (instead if self._is_unshared(args[0]) else func), args

    def _accumulation(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Autograd's sum of two gradients, where it would work in place on a plain tensor.

        See ``accumulate`` in torch/csrc/autograd/input_buffer.cpp.
        """
        old, new = args[0], args[-1]
        if len(args) == 2 and type(new) is SimulatedTensor and old.shape == new.shape:
            if self._unshared is None:
                self._unshared = _holders(old, 0)
            elif self._is_unshared(old) and _is_dense(old):
                return _ADD_, args
        return _ADD, args

    def _is_unshared(self, tensor: Any) -> bool:
        """Whether nobody but autograd, and who asks, holds the tensor and its storage."""
        limits = zip(_holders(tensor, 1), self._unshared, strict=True)
        return all(count <= limit for count, limit in limits)

    def rehearse(self) -> None:
        """Run a program for the first time: what it imports and learns is there for the next.

        Two gradients that nobody holds but autograd are added in it: how often they are held then,
        by Python's count and by C++'s, is what ``_accumulation`` takes for unshared.
        """
        self._unshared = None
        with torch.inference_mode(False), torch.enable_grad():
            leaf = torch.empty(2, 2, device=DEVICE, requires_grad=True)
            ((leaf * 2).exp() + (leaf * 3).exp()).sum().backward()

    @contextmanager
    def inheriting(self, avoided: tuple[Any, ...]) -> Iterator[None]:
        """C++ code runs that avoids to work in place, by these operators, on a subclass."""
        before, self._avoided = self._avoided, avoided
        try:
            yield
        finally:
            self._avoided = before


#: Set from outside, or it would be wrapped for the sake of a compiler that does not come here.
SimulatedFakeMode.__torch_dispatch__ = SimulatedFakeMode._dispatched  # type: ignore[assignment,method-assign]


def _holders(tensor: Any, between: int) -> tuple[int, int, int]:
    """How often it is held by Python, but for so many frames, by C++ code, and its storage."""
    storage = tensor.untyped_storage()._cdata
    held = torch._C._storage_Use_Count(storage)
    return getrefcount(tensor) - between, tensor._use_count(), held


def _is_dense(tensor: Any) -> bool:
    """Whether its elements fill a stretch of memory, each with a place of its own."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
