"""A TorchFunctionMode that redirects a program's calls of PyTorch to the simulated device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor as _is_wrapped
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._mode_utils import no_dispatch

from .call_arguments import SHARING, is_array, is_number, may_hold_tensors, names_meta, of_devices
from .changed_tensors import set_data
from .elements import Elements
from .factory_targets import with_device, without_targets_device
from .fake_tensor import CPU, CUDA, IMPLICIT_CUDA, META, SimulatedTensor
from .file_memory import of_files
from .legacy_constructors import new_like
from .meta_tensors import all_meta, as_on_meta, is_meta, leaves_meta
from .moves import Moves
from .program_errors import NOT_LINKED, at, refuse_cpp
from .rebound_arguments import rebinding
from .repeated_calls import RepeatedCalls
from .replaced_functions import OriginalFunctions
from .simulated_device import DeviceName
from .stand_ins import as_given
from .tensors_as_sizes import reading_sizes
from .transforms import composites, unwrapped
from .wrapped_reads import reads
from .wrapped_tensors import casts_apart, is_wrapper, other_handler, own_handler, with_own_tensors

if TYPE_CHECKING:
    from .fake_converter import FakeConverter
    from .fake_mode import SimulatedFakeMode
    from .storage_lifetimes import StorageLifetimes

#: Attributes of a tensor from outside that are read from its fake.
_ANSWERED_BY_FAKE = frozenset({"device", "is_cuda", "is_cpu", "grad", "data", "T", "mT", "H", "mH"})
#: Attributes of a tensor in a transform that are read from the tensor that it wraps.
_OF_WRAPPED = frozenset({"device", "is_cuda", "is_cpu", "is_meta"})
_MOVES = frozenset({torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu})  # or what it wraps
_NAME_DEVICES = frozenset({torch.Tensor.to, torch.Tensor.cuda})  # a program may replace them
_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
_NEW_TENSOR = torch.Tensor.new_tensor
_DisableTorchFunctionSubclass = torch._C.DisableTorchFunctionSubclass


class SimulatedFunctionMode(TorchFunctionMode):
    """Sees every call of the program; translates device names and tensors from outside."""

    def __init__(
        self, fake_mode: SimulatedFakeMode, converter: FakeConverter, storages: StorageLifetimes
    ) -> None:
        super().__init__()
        self.storage_resized = storages.storage_resized
        self._written_views = storages.written_views
        self.mark_unknown = fake_mode.observer.mark_unknown
        self._fake_mode, self._converter = fake_mode, converter
        self.pinned_memory, self.moved_buffers = converter.pinned_memory, converter.moved_buffers
        self._factories = frozenset(_device_constructors())
        self.moves = Moves(self.device, converter)
        self._special: dict[Any, Callable[..., Any]] = {
            **self.moves.functions,
            **Elements(self.run_factory).functions,
            _NEW_TENSOR: self._new_tensor,
            torch.Tensor.new: new_like(self.run_factory),
            torch.Tensor.pin_memory: self.pinned_memory.pin,
            torch.Tensor.is_pinned: self.pinned_memory.is_pinned,
            **reads(),
            **of_devices(),
            **of_files(self._to_fake, fake_mode),
            **composites(self.mark_unknown, lambda: fake_mode.known_ops.of(_ATTENTION).composite),
            **rebinding(self.mark_unknown),
            **reading_sizes(self.mark_unknown),
        }
        self._originals = OriginalFunctions()
        self._repeated_calls = RepeatedCalls(fake_mode, self._factories.union(self._special))

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if types and (handler := other_handler(types)) is not None:
            return self._handled(handler, func, args, kwargs)
        views = self._written_views
        if views.others:
            views.renew(func, args, kwargs)
        made = self._repeated_calls.run(self._originals[func], args, kwargs, self._call)
        if views.pending:
            views.follow(func, args, kwargs)
        return as_given(made)

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Calls the function on fakes of the tensors from outside, on the device it names."""
        own = args
        for arg in args:
            if type(arg) is not SimulatedTensor and may_hold_tensors(arg):
                if (handler := own_handler(args)) is not None:
                    return self._handled(handler, func, args, kwargs)
                if all_meta(args) and not leaves_meta(func, args, kwargs or {}):
                    with no_dispatch():
                        return func(*args, **(kwargs or {}))
                if getattr(func, "__name__", "") in ("__get__", "__set__"):
                    return func(*args) if is_wrapper(args[0]) else self._attribute(func, args)
                if func in _NAME_DEVICES:
                    self.moves.name_target(func, args, kwargs or {})
                args = self.to_fakes(args)
                if casts_apart(args):
                    self.mark_unknown("autocast of a DTensor")
                break
        fake_mode = self._fake_mode
        before, fake_mode.current_call = fake_mode.current_call, (func, args)
        fake_mode.function_depth += 1
        try:
            special = self._special.get(func)
            if special is not None and not (
                args
                and type(args[0]) is not SimulatedTensor
                and is_wrapper(args[0])
                and func not in _MOVES
            ):
                return special(*args, **(kwargs or {}))
            if kwargs and kwargs.get("pin_memory"):
                return self._run_pinned(func, args, kwargs)
            if func in self._factories:
                return self.run_factory(func, args, kwargs or {})
            if kwargs:
                for arg in kwargs.values():
                    if isinstance(arg, torch.Tensor) and type(arg) is not SimulatedTensor:
                        if (handler := own_handler(kwargs.values())) is not None:
                            return self._handled(handler, func, args, kwargs)
                        kwargs = {key: self._to_fake(value) for key, value in kwargs.items()}
                        break
                if names_meta(kwargs.get("device")):
                    return as_on_meta(func, args, kwargs)
                if kwargs.get("device") is not None:
                    kwargs = with_device(kwargs, self.device)
                return func(*args, **kwargs)
            if args is own:
                with _DisableTorchFunctionSubclass():  # as ``Tensor.__torch_function__`` does
                    return func(*args)
            return func(*args)
        except RuntimeError as error:
            refuse_cpp(error, func, fake_mode.observer.refused)
            raise
        finally:
            fake_mode.function_depth -= 1
            fake_mode.current_call = before

    def _handled(self, handler: Any, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        with self:  # for the calls that the handler makes
            return handler(func, (), args, kwargs or {})

    def call_outside(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function that got a simulated tensor outside windows."""
        special = self._special.get(func) if args and type(args[0]) is SimulatedTensor else None
        return (special or func)(*args, **kwargs)

    @contextmanager
    def inside_autograd(self) -> Iterator[None]:
        """Marks a run of autograd's engine, which may call code of the program."""
        mode = self._fake_mode
        function_depth, mode.function_depth = mode.function_depth, 0
        before, mode.current_call = mode.current_call, (None, ())
        try:
            if function_depth:
                with self:
                    yield
            else:
                yield
        finally:
            mode.function_depth, mode.current_call = function_depth, before

    def to_fakes(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the arguments with fakes for the tensors from outside."""
        return tuple([self._to_fake(arg) for arg in args])

    def device(self, given: Any) -> torch.device:
        """Returns the device that a program names.

        Raises:
            CannotSimulate: the simulated backend has no such device.
            StartAgain: the program names CUDA after it made tensors without a device.
        """
        if given is IMPLICIT_CUDA or isinstance(given, DeviceName):
            return IMPLICIT_CUDA  # an outer mode sees that the program did not name the device
        found = CUDA if isinstance(given, int) else torch.device(given)
        index = given if isinstance(given, int) else found.index
        if found.type == "cpu":
            return CPU
        if found.type == "cuda" and index in (None, 0):
            self._fake_mode.observer.device_named()
            return CUDA
        raise self._fake_mode.observer.refused(
            f"the simulated backend has one device, 'cuda', not {str(given)!r}; use another backend"
        )

    def is_for_host(self, given: Any) -> bool:
        """Returns True if a storage made for that device, or for none, is on the host."""
        return self._fake_mode.device_named and torch.device(given or CPU).type == "cpu"

    def _attribute(self, func: Any, args: tuple[Any, ...]) -> Any:
        """Reads or sets an attribute where a tensor from outside takes part."""
        name, owner = func.__self__.__name__, args[0]
        if _is_wrapped(owner) and name in _OF_WRAPPED:
            return getattr(unwrapped(owner), name)
        if func.__name__ == "__set__":
            return (set_data if name == "data" else func)(*self.to_fakes(args))
        if name not in _ANSWERED_BY_FAKE and self._converter.find(owner) is None:
            return func(*args)
        return getattr(self._to_fake(owner), name)

    def _to_fake(self, arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            if getattr(arg, "fake_mode", None) is self._fake_mode or _is_wrapped(arg):
                return arg
            if is_wrapper(arg):
                return with_own_tensors(arg, self._fake_mode)
            of_host = is_meta(arg)
            return (self._converter.to_host_fake if of_host else self._converter.to_fake)(arg)
        if type(arg) in (list, tuple):
            for item in arg:
                if isinstance(item, (torch.Tensor, list, tuple)):
                    return type(arg)([self._to_fake(item) for item in arg])
        return arg

    def _new_tensor(self, tensor: Any, data: Any, **kwargs: Any) -> Any:
        if isinstance(data, torch.Tensor):
            return _NEW_TENSOR(tensor, data, **kwargs)
        like = {"dtype": tensor.dtype, "device": unwrapped(tensor).device}
        return self.run_factory(torch.tensor, (data,), {**like, **kwargs})

    def with_values(self, data: Any) -> Any:
        """Returns data with the values of the tensors in lists, which C++ code reads."""
        if type(data) is SimulatedTensor:
            return self._fake_mode.observer.value(data, "torch.tensor")
        if type(data) in (list, tuple):
            for item in data:
                if isinstance(item, (torch.Tensor, list, tuple)):
                    return type(data)([self.with_values(item) for item in data])
        return data

    def run_factory(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a factory on the device that the program names, or else on CUDA."""
        first = args[0] if args else kwargs.get("data", kwargs.get("obj"))
        if args and type(first) in (list, tuple):
            args = (self.with_values(first), *args[1:])
        kwargs = without_targets_device(kwargs, self.device)
        given = kwargs.get("device")
        if given is None and any(isinstance(x, torch.Tensor) for x in (first, kwargs.get("out"))):
            return func(*args, **kwargs)  # on the device of that tensor
        fake_mode = self._fake_mode
        given = torch.utils._device.CURRENT_DEVICE if given is None else given
        if isinstance(first, (torch.UntypedStorage, torch.TypedStorage)):
            with no_dispatch():  # memory of the host, as of a file
                made = self._to_fake(func(*args, **{**kwargs, "device": CPU}))
            return made if given is None else self.moves.move(made, self.device(given))
        if names_meta(given):
            return as_on_meta(func, args, {**kwargs, "device": META})
        if given is not None:
            device = self.device(given)
            if func in SHARING and self._is_on(device, first):  # C++ code sees another device
                return func(*args, **{**kwargs, "device": None})
        elif fake_mode.device_named or is_number(func, args, kwargs):
            device = CPU
        elif func in SHARING and is_array(first, kwargs):
            return torch.from_numpy(first)
        else:
            device, fake_mode.used_implicit_device = IMPLICIT_CUDA, True
        fake_mode.factory_depth += 1
        try:
            made = func(*args, **{**kwargs, "device": device})
        except RuntimeError as error:
            if NOT_LINKED not in str(error):
                raise
            refused = f"torch.{func.__name__} on 'cuda'{at()} cannot be simulated"
            raise fake_mode.observer.refused(refused) from None
        finally:
            fake_mode.factory_depth -= 1
        if isinstance(given, DeviceName):
            made.__dict__["_fake_device"] = CUDA  # code that copies this device names it
        return made

    def _run_pinned(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a factory, on the host unless the program or a tensor names another device."""
        kwargs = {key: value for key, value in kwargs.items() if key != "pin_memory"}
        like = args and isinstance(args[0], torch.Tensor) and unwrapped(args[0]).device is CUDA
        if kwargs.get("device") is None and not like:
            kwargs["device"] = CPU
        return self.pinned_memory.noted(self._call(func, args, kwargs))

    def _is_on(self, device: torch.device, value: Any) -> bool:
        given = isinstance(value, torch.Tensor) and not self._converter.is_converted(value)
        return given and unwrapped(value).device == device
