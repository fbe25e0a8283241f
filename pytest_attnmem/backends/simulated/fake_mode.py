"""A FakeTensorMode for a simulated device: operators run without data and are observed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import CodeType
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
)

from ...errors import CannotSimulate
from .autograd_calls import AutogradCalls
from .cached_calls import CachedCalls
from .cached_op import CachedOp
from .composed_ops import COMPOSED
from .direct_ops import DirectOps
from .direct_views import DirectViews
from .error_texts import ERRORS, own_error
from .fake_maker import FakeMaker
from .fake_tensor import (
    CPU,
    CUDA,
    DEVICE_OF,
    IMPLICIT_CUDA,
    SimulatedTensor,
    make_all_simulated,
    seen_by_cpp,
)
from .known_calls import KnownCalls
from .list_versions import count_write
from .observer import DispatchedOp, Heard, Observer
from .op_cache import OpCache
from .op_facts import KnownOps, OpFacts
from .own_fakes import as_fakes, is_from_data, lacks_device
from .result_layouts import laid_out, settle_target
from .undescribed_ops import check_strided, lacks_rule
from .values import Values, is_of_array
from .wrapped_tensors import WrapperCalls, is_wrapper
from .written_shapes import check_written_shape

_aten = torch.ops.aten
_TO_COPY = _aten._to_copy.default


class SimulatedFakeMode(FakeTensorMode):
    """A mode in which operators run without data, on a simulated device."""

    supports_higher_order_operators = True  # so that they come here, and fail in one line

    def __init__(
        self, observer: Observer, replacements: Mapping[Any, Callable[..., Any]], known: KnownCalls
    ) -> None:
        super().__init__()
        self.cache_enabled = False  # ``op_cache`` has a program's repeated calls, and costs less
        self.observer = observer
        self.running = False
        """True while a program runs in the mode."""
        self.in_turn: Callable[[], AbstractContextManager[None]] = nullcontext
        """Makes threads of the program wait for each other, once there is one."""
        self.function_depth = 0
        """The nesting depth of calls from the program into PyTorch's Python interface."""
        self.current_call: tuple[Any, tuple[Any, ...]] = None, ()
        """The function that the program is calling, and its arguments."""
        self.device_named = False
        """True once the program names a device; until then every tensor is on CUDA."""
        self.used_implicit_device = False
        """True if a tensor is on CUDA only because the program named no device."""
        self.factory_depth = 0
        """The nesting depth of factory calls whose device the function mode has chosen."""
        self.torch_code: dict[int, tuple[CodeType, bool]] = {}
        """Answers of ``asked_by_torch``."""
        self.heard: Heard | None = None
        """The listener that hears of each operator that runs."""
        self.dispatch_depth = 0
        """Above 0 while PyTorch looks for the rule of an operator."""
        self.known_ops = KnownOps({**replacements, **COMPOSED}, known)
        self._avoided_ops: Container[Any] = ()
        self._avoids_once = False
        self.maker = maker = FakeMaker(self)
        self._direct_ops = DirectOps(self, maker)
        self.op_cache = OpCache(maker, known)
        self._direct_views, self._cached_calls = DirectViews(self), CachedCalls(self)
        self.values = Values(maker.make, observer, known.profile)
        self.autograd_calls, self.wrapper_calls = AutogradCalls(known), WrapperCalls()
        self.is_observed = True

    @contextmanager
    def unobserved(self) -> Iterator[None]:
        """Runs operators of the body without memory and values: the program does not run them."""
        before, self.is_observed = self.is_observed, False
        try:
            with torch._C.DisableTorchFunction(), self:
                yield
        finally:
            self.is_observed = before

    @property
    def avoid_device_init(self) -> bool:
        """Returns True: no device exists, whatever ``torch.cuda.is_available`` returns."""
        return True

    def _dispatched(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for kind in types:
            if kind is not SimulatedTensor and is_wrapper(kind):
                return self.wrapper_calls.run(self, func, args, kwargs)
        if func is DEVICE_OF:
            return seen_by_cpp(args[0])
        if kwargs:
            if (device := kwargs.get("device")) is not None:
                if device.type != "cpu":
                    kwargs = {**kwargs, "device": CUDA if self.device_named else IMPLICIT_CUDA}
                elif func is _TO_COPY and is_from_data(self, args[0]):
                    return args[0]
        elif (made := self._direct_views.make(func, args)) is not None:
            return made
        else:
            kwargs = {}
        if self.dispatch_depth:
            return self.dispatch(func, types, args, kwargs)
        if type(func) is not OpOverload and isinstance(func, HigherOrderOperator):
            raise self._unsupported(func)
        facts = self.known_ops.of(func)
        if (
            (facts.factory or facts.lift)
            and not (self.factory_depth or self.device_named)
            and lacks_device(facts, args, kwargs, self.current_call[1])
        ):
            return self._put_on_device(facts, types, args, kwargs)
        if facts.lift and is_of_array(args[0]):
            return self.values.of_array(args[0], CPU)
        if facts.composite is not None:  # composites reach the mode in inference mode
            facts.check_devices(args, kwargs, self.observer)
            if facts.kernel_check is not None:
                facts.kernel_check(args, kwargs, self.observer.refused)
            with self:
                out = facts.composite(*args, **kwargs)
            if out is not NotImplemented:
                return out
        with torch._C.DisableTorchFunction():  # the code below is not the program's
            try:
                return self._run(facts, types, args, kwargs)
            except (CannotSimulate, Exception) as error:
                self.observer.raised(error)
                raise

    def _run(
        self, facts: OpFacts, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        func = facts.func
        key, offsets = self.op_cache.key(facts, args, kwargs) if facts.plain else (None, ())
        if key is None:
            if not facts.lift:
                args, kwargs = as_fakes(self, args, kwargs)
            facts, args = self._prepared(facts, args, kwargs)
            func, (key, offsets) = facts.func, self.op_cache.key(facts, args, kwargs)
        for check in facts.checks if self.is_observed else ():
            check(args, kwargs, self.observer.refused)
        cached = None if key is None else self.op_cache.find(facts, key)
        if cached is not None:
            return self._cached_calls.run(facts, args, kwargs, cached, offsets)
        facts.check_devices(args, kwargs, self.observer)
        if facts.fits:
            check_written_shape(args, kwargs)
        refusals, observed = facts.refusals, self.is_observed
        if refusals and not (observed and refusals.check(args, kwargs, self.observer.refused)):
            key = None  # the next such call is checked too
        if facts.view:
            self.values.forget_constants(args)  # PyTorch makes a new storage of a view of one
        silent = facts.silent or not observed
        noted = None if silent else self.values.tape.begin(func, args, kwargs)
        target = kwargs.get("out")
        shape = getattr(target, "shape", None)
        if kwargs.get("generator") is not None:  # rules of sizes draw nothing, and some refuse it
            kwargs = {**kwargs, "generator": None}
        try:
            out = self._direct_ops.run(func, args, kwargs)
            if out is NotImplemented:
                out = self._run_in_general(func, types, args, kwargs)
        except ERRORS as error:
            raise own_error(error, func, args, kwargs, self.observer.mixed_devices_error) from None
        check_strided(func, args, out, self.observer.refused)
        out = laid_out(func, args, kwargs, out, self.maker)
        if target is not None:
            settle_target(func, args, target, shape)
            out = target if type(out) is type(target) is SimulatedTensor else out
            if key is not None and target.shape != shape:  # the next one may not be resized
                key = None
        if key is not None:
            cached = self.op_cache.store(facts, key, args, kwargs, out)
        if noted is not None:
            self.values.end(noted, out)
            if cached is not None:
                cached.learn_layouts(offsets, noted.inputs, noted.outputs)
        return self.ran(func, args, kwargs, out, cached)

    def ran(self, func: Any, args: Any, kwargs: Any, out: Any, cached: CachedOp | None) -> Any:
        """Reports an operator that ran; returns its outputs."""
        if out is None and args and type(args[0]) in (list, tuple):
            count_write(func, args[0])
        if not self.is_observed:
            return out
        if torch._C._current_graph_task_id() != -1:
            self.autograd_calls.note(out)
        in_place = func in self._avoided_ops
        if in_place and self._avoids_once:
            self._avoided_ops = ()
        op = DispatchedOp(func, args, kwargs, out, in_place, cached)
        self.observer.after_op(op)
        if self.heard:
            self.heard.note(op)
        return out

    def _prepared(
        self, facts: OpFacts, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[OpFacts, tuple[Any, ...]]:
        """Returns the operator that a device runs, and its arguments."""
        in_backward = facts.backward and torch._C._current_graph_task_id() != -1
        in_backward = in_backward and not self.wrapper_calls.running
        if in_backward and not (kwargs or self.function_depth):
            func, args = self.autograd_calls.on_plain_tensors(facts.func, args)
            facts = self.known_ops.of(func)
        return facts, args

    def _run_in_general(
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs an operator as FakeTensorMode does."""
        self.dispatch_depth += 1
        try:
            out = self.dispatch(func, types, args, kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            return self.values.result(func, args, kwargs)
        except FakeTensorDeviceMismatchError:
            raise self.observer.mixed_devices_error(func) from None
        except (NotImplementedError, TypeError, RuntimeError) as error:
            if not lacks_rule(error):
                raise
            raise self._unsupported(func) from None
        finally:
            self.dispatch_depth -= 1
        make_all_simulated(out, (args, kwargs))
        return out

    def _unsupported(self, func: Any) -> CannotSimulate:
        return self.observer.no_data_error(f"{func}, which PyTorch cannot run without data,")

    def _put_on_device(
        self, facts: OpFacts, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs a factory that C++ code called without a device; its tensor goes on the device."""
        self.used_implicit_device = True
        if facts.lift and is_of_array(args[0]):
            with torch._C.DisableTorchFunction():
                made = self.values.of_array(args[0], IMPLICIT_CUDA)
                return self.ran(_TO_COPY, args, {"device": IMPLICIT_CUDA}, made, None)
        if not facts.lift:
            kwargs = {**kwargs, "device": IMPLICIT_CUDA}
        if facts.composite is not None:
            with self:
                return facts.composite(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            made = self._run(facts, types, args, kwargs)
            if not facts.lift:
                return made
            to_copy = self.known_ops.of(_TO_COPY)
            return self._run(to_copy, types, (made,), {"device": IMPLICIT_CUDA})

    def avoids(self, op: Any) -> bool:
        """Returns True if C++ code calls the operator to avoid one in place."""
        return op in self._avoided_ops

    @contextmanager
    def in_place_of(self, ops: Container[Any], *, once: bool = False) -> Iterator[None]:
        """Treats ``ops`` as in place: C++ code calls them on subclasses to avoid in-place ops.

        With ``once``, the first call of one is in place, and no other.
        """
        before = self._avoided_ops, self._avoids_once
        self._avoided_ops, self._avoids_once = ops, once
        try:
            yield
        finally:
            self._avoided_ops, self._avoids_once = before


#: Set from outside: FakeTensorMode would otherwise wrap the method for the compiler.
SimulatedFakeMode.__torch_dispatch__ = SimulatedFakeMode._dispatched  # type: ignore[assignment,method-assign]
