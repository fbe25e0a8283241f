"""A FakeTensorMode for a simulated device: operators run without data and are observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from sys import getrefcount
from types import CodeType
from typing import Any

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
from .fake_tensor import (
    CUDA,
    DEVICE,
    DEVICE_OF,
    IMPLICIT_CUDA,
    SimulatedTensor,
    make_simulated,
    seen_by_cpp,
)
from .formula_sums import FormulaSums
from .in_place_gradients import IF_UNSHARED, INDEX_PUT, ON_FRESH
from .observer import DispatchedOp, Observer
from .op_cache import OpCache
from .op_kinds import in_cpp, is_composite, is_factory, is_for_host

_aten = torch.ops.aten
_ADD, _ADD_ = _aten.add.Tensor, _aten.add_.Tensor

_BACKWARD_OPS = frozenset({_ADD, *(func for _, func in (*IF_UNSHARED, *ON_FRESH))})

#: Operators whose backward reads values; on a subclass, which has none, it calls other operators.
_BACKWARD_READS_VALUES = frozenset({_aten.prod.default, _aten.prod.dim_int, _aten.cumprod.default})

#: Errors of operators whose shapes PyTorch finds by running them, or finds with a faulty rule.
_NO_SHAPE_RULE = ("Could not run 'aten::empty_strided'", "Found no NVIDIA driver", "meta_")

#: Losses whose gradients of input and target share a node, which works in place on one of them.
_TARGETS = frozenset(
    {_aten.binary_cross_entropy.default, _aten.binary_cross_entropy_with_logits.default}
)


class SimulatedFakeMode(FakeTensorMode):
    """A mode in which operators run without data, on a simulated device."""

    supports_higher_order_operators = True  # so that they come here, and fail in one line

    def __init__(
        self,
        observer: Observer,
        replacements: Mapping[Any, Callable[..., Any]],
    ) -> None:
        super().__init__()
        self.cache_enabled = False  # ``_op_cache`` has a program's repeated calls, and costs less
        self.observer = observer
        self.running = False
        """True while a program runs in the mode."""
        self.function_depth = 0
        """The nesting depth of calls from the program into PyTorch's Python interface."""
        self.device_named = False
        """True once the program names a device; until then every tensor is on CUDA."""
        self.used_implicit_device = False
        """True if a tensor is on CUDA only because the program named no device."""
        self.factory_depth = 0
        """The nesting depth of factory calls whose device the function mode has chosen."""
        self.torch_code: dict[CodeType, bool] = {}
        """Answers of ``asked_by_torch``."""
        self._replacements = replacements
        self._dispatch_depth = 0
        self._is_composite: dict[Any, bool] = {}
        self._is_factory: dict[Any, bool] = {}
        self._avoided_ops: tuple[Any, ...] = ()
        self._unshared_counts: Any = None
        self._op_cache = OpCache()
        self._formula_sums = FormulaSums()

    @property
    def avoid_device_init(self) -> bool:
        """Returns True: no device exists, whatever ``torch.cuda.is_available`` returns."""
        return True

    def _dispatched(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is DEVICE_OF:
            return seen_by_cpp(args[0])
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if device is not None and device.type != "cpu":
            kwargs = {**kwargs, "device": CUDA if self.device_named else IMPLICIT_CUDA}
        if self._dispatch_depth:
            return self.dispatch(func, types, args, kwargs)
        if not (self.factory_depth or self.device_named) and self._lacks_device(func, args, kwargs):
            return self._put_on_device(func, types, args, kwargs)
        composite = self._is_composite.get(func)
        if composite is None:
            if isinstance(func, HigherOrderOperator):
                raise self._unsupported(func)
            composite = func in self._replacements or is_composite(func)
            self._is_composite[func] = composite
        if composite:  # composites reach the mode in inference mode
            with self:
                return self._replacements.get(func, partial(in_cpp, func))(*args, **kwargs)
        with torch._C.DisableTorchFunction():  # the code below is not the program's
            return self._run(func, types, args, kwargs)

    def _run(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in self.lift_fns:
            for arg in args:
                if not self._is_own(arg):
                    args = tuple(map(self._as_fake, args))
                    break
        if func in _BACKWARD_OPS and torch._C._current_graph_task_id() != -1:
            func, args = self._as_autograd_calls(func, args, kwargs)
        if func in _BACKWARD_READS_VALUES and torch.is_grad_enabled() and args[0].requires_grad:
            self.observer.mark_unknown(f"the backward of {func}")
        if func in _TARGETS and torch.is_grad_enabled() and args[1].requires_grad:
            self.observer.mark_unknown(f"the gradient of the target of {func}")
        cached, key = None, self._op_cache.key(func, args, kwargs)
        in_place = func in self._avoided_ops
        if key is not None:
            cached = self._op_cache.find(key)
            if cached is not None:
                out = self._op_cache.replay(cached, args)
                if torch._C._current_graph_task_id() != -1:
                    self._formula_sums.note(out)
                self.observer.after_op(DispatchedOp(func, args, kwargs, out, in_place, cached))
                return out
        self._dispatch_depth += 1
        try:
            out = self.dispatch(func, types, args, kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            raise self.observer.no_data_error() from None
        except FakeTensorDeviceMismatchError:
            raise self.observer.mixed_devices_error(func) from None
        except UnsupportedOperatorException:
            raise self._unsupported(func) from None
        except (NotImplementedError, TypeError, RuntimeError) as error:
            if not str(error).startswith(_NO_SHAPE_RULE):
                raise
            raise self._unsupported(func) from None
        finally:
            self._dispatch_depth -= 1
        for leaf in out if isinstance(out, (tuple, list)) else (out,):
            for tensor in leaf if isinstance(leaf, (tuple, list)) else (leaf,):
                if type(tensor) is FakeTensor:
                    make_simulated(tensor, (args, kwargs))
        if key is not None:
            cached = self._op_cache.store(key, args, out)
        if torch._C._current_graph_task_id() != -1:
            self._formula_sums.note(out)
        self.observer.after_op(DispatchedOp(func, args, kwargs, out, in_place, cached))
        return out

    def _unsupported(self, func: Any) -> CannotSimulate:
        return self.observer.no_data_error(f"{func}, which PyTorch cannot run without data,")

    def _lacks_device(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Returns True if C++ code makes a tensor, not a single number, without a device."""
        factory = self._is_factory.get(func)
        if factory is None:
            factory = self._is_factory[func] = is_factory(func)
        if factory:
            return not is_for_host(args, kwargs)
        return func in self.lift_fns and bool(args[0].dim())

    def _put_on_device(
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs a factory that C++ code called without a device; its tensor goes on the device."""
        self.used_implicit_device = True
        if func not in self.lift_fns:
            kwargs = {**kwargs, "device": IMPLICIT_CUDA}
        with torch._C.DisableTorchFunction():
            made = self._run(func, types, args, kwargs)
            if func not in self.lift_fns:
                return made
            return self._run(_aten._to_copy.default, types, (made,), {"device": IMPLICIT_CUDA})

    def _is_own(self, arg: Any) -> bool:
        if isinstance(arg, torch.Tensor):
            if type(arg) is SimulatedTensor:
                return arg.__dict__["fake_mode"] is self
            return getattr(arg, "fake_mode", None) is self
        if isinstance(arg, (list, tuple)):
            return all(map(self._is_own, arg))
        return True

    def _as_fake(self, arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return arg if self._is_own(arg) else self.observer.to_fake(arg)
        if isinstance(arg, (list, tuple)):
            return type(arg)(map(self._as_fake, arg))
        return arg

    def _as_autograd_calls(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, tuple[Any, ...]]:
        """Returns the operator that autograd calls on plain tensors, and its arguments."""
        if kwargs or self.function_depth or torch.is_grad_enabled():
            return func, args
        if func is _ADD:
            formula = self._formula_sums.includes(args[0], args[-1])
            return (func, args) if formula else self._gradient_sum(args)
        node = torch._C._current_autograd_node()
        call = (node.name() if node is not None else "", func)
        instead = IF_UNSHARED.get(call)
        if instead is None:
            return ON_FRESH.get(call, func), args
        if func is INDEX_PUT:
            return instead, (*args, True)  # unsafe=True, as autograd passes it
        return (instead if self._is_unshared(args[0]) else func), args

    def _gradient_sum(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Returns the addition that autograd uses to sum two gradients: in place where it can.

        See ``accumulate`` in torch/csrc/autograd/input_buffer.cpp.
        """
        old, new = args[0], args[-1]
        if len(args) == 2 and type(new) is SimulatedTensor and old.shape == new.shape:
            if self._unshared_counts is None:
                self._unshared_counts = _reference_counts(old, 0)
            elif self._is_unshared(old) and _is_dense(old):
                return _ADD_, args
        return _ADD, args

    def _is_unshared(self, tensor: Any) -> bool:
        """Returns True if only autograd and the caller hold the tensor and its storage."""
        limits = zip(_reference_counts(tensor, 1), self._unshared_counts, strict=True)
        return all(count <= limit for count, limit in limits)

    def warm_up(self) -> None:
        """Runs a small program once, so that later programs find imports and caches ready.

        It adds two gradients that only autograd holds. Their reference counts, in Python and in
        C++, become the counts of an unshared tensor.
        """
        self._unshared_counts = None
        with torch.inference_mode(False), torch.enable_grad():
            leaf = torch.empty(2, 2, device=DEVICE, requires_grad=True)
            ((leaf * 2).exp() + (leaf * 3).exp()).sum().backward()

    @contextmanager
    def in_place_of(self, ops: tuple[Any, ...]) -> Iterator[None]:
        """Treats ``ops`` as in place: C++ code calls them on subclasses to avoid in-place ops."""
        before, self._avoided_ops = self._avoided_ops, ops
        try:
            yield
        finally:
            self._avoided_ops = before


#: Set from outside: FakeTensorMode would otherwise wrap the method for the compiler.
SimulatedFakeMode.__torch_dispatch__ = SimulatedFakeMode._dispatched  # type: ignore[assignment,method-assign]


def _reference_counts(tensor: Any, between: int) -> tuple[int, int, int]:
    """Returns the reference counts of a tensor in Python and C++, and that of its storage.

    ``between`` frames between this function and the caller of interest are left out.
    """
    storage = tensor.untyped_storage()._cdata
    of_storage = torch._C._storage_Use_Count(storage)
    return getrefcount(tensor) - between, tensor._use_count(), of_storage


def _is_dense(tensor: Any) -> bool:
    """Returns True if the elements fill one range of memory, without gaps or overlaps."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
