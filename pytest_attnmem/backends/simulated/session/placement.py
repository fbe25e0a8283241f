"""The device of tensors that a program makes without a device.

They are on the simulated device until the program names one; then they belong on the host, as in
PyTorch, and a run that put some on the device starts again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures.thread import _WorkItem
from contextlib import contextmanager
from functools import wraps
from types import MappingProxyType
from typing import Any, Final

import torch
from torch._functorch import eager_transforms as transforms
from torch._functorch import vmap
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import saved_tensors_hooks
from torch.jit._builtins import _register_builtin
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from ....errors import AttnMemError, CannotSimulate, StartAgain
from ....units import shown
from ...autograd_engine import RUN_BACKWARD
from ..memory.simulated_device import DeviceName
from ..patched import Patches, patched
from ..program_errors import at
from .outside_tensors import OutsideTensors

_NAME: Final = re.compile(r"cuda(:\d+)?")
_MOVES: Final = (torch.Tensor.cuda, torch.Tensor.to)
_TO_ARRAY: Final = (torch.Tensor.numpy, torch.Tensor.__array__)


def _of_plain(ask: Callable[..., bool]) -> Callable[..., bool]:
    """Returns what a function asks if its tensors are of subclasses; a mode changes no answer.

    A function of Python that a mode runs holds its arguments until it ends, in the frame that asked
    too, though it lets go of them; the operators that it calls come to the mode all the same.
    """

    def asked(*given: Any) -> bool:
        values = given[0] if len(given) == 1 and type(given[0]) in (tuple, list) else given
        return not _PLAIN.issuperset(map(type, values)) and ask(*given)

    _register_builtin(asked, "aten::has_torch_function")  # for scripts
    return asked


_PLAIN: Final = frozenset({torch.Tensor, torch.nn.Parameter, type(None), bool, int, float, str})
#: What PyTorch's functions in Python ask, by owner and name.
_ASKED: Final = MappingProxyType(
    {
        (owner, name): _of_plain(getattr(owner, name))
        for owner in (torch.functional, torch.nn.functional, torch.overrides)
        for name in (
            *("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"),
        )
    }
)


#: What draws new tensors, and what draws into one without a tensor of chances.
_DRAWN = frozenset({torch.rand, torch.randn, torch.randint})
_DRAWS = frozenset({torch.Tensor.uniform_, torch.Tensor.normal_, torch.Tensor.random_})


class Placement:
    """Whether the running program named the device, and where its other tensors are."""

    def __init__(
        self,
        device: torch.device,
        note: Callable[[str], CannotSimulate],
        outside: OutsideTensors,
        read: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        self.starts_again = ""
        """The reason why the program must run again from its start; empty: it need not."""
        self.named = False
        """True for a program that names the device: its other tensors are on the host."""
        self.outside = outside
        self.read = read
        """Returns the values of a tensor."""
        self._device = device
        self._note = note
        self._used = self._has_inputs = False
        self._thread = 0
        self._mode = _OnDevice(device, self)

    @property
    def may_start_again(self) -> bool:
        """Returns True while tensors are on the device only because the program named none."""
        return self._used and not self.named

    def restart(self) -> None:
        """Begins a test, which names no device unless somebody says so."""
        if not self.named:
            self.outside.leave_on_host()
        self.begin_run()
        self.named = self._has_inputs = False

    def begin_run(self) -> None:
        """Begins a run of a program."""
        self.starts_again, self._used = "", False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Has the body's tensors without a device made where they belong."""
        if self.named:
            yield
            return
        self._thread = threading.get_ident()
        try:
            with self._mode, patched({**self._patches(), **self._mode.patches()}):
                yield
        finally:
            self.outside.put_back(settled=not self.starts_again)

    def move(self, func: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
        """Moves the tensors of a call from outside, which count as on the device."""
        if not self.named and self.outside.use(func, args, kwargs):
            self._used = True

    def _patches(self) -> dict[tuple[Any, str], Any]:
        """Returns what makes tensors that the function mode does not see made.

        PyTorch takes the mode away while it runs a function, such as a backward pass, and so
        from the program's code that is called in it; other threads do not have it.
        """
        new, from_numpy, load = torch.nn.Parameter.__new__, torch.from_numpy, torch.load
        bootstrap: Any = vars(threading.Thread)["_bootstrap_inner"]
        run_item = _WorkItem.run
        hooks, applied = saved_tensors_hooks.__init__, BackwardCFunction.apply
        swap: Any = torch.utils.swap_tensors
        report = threading.excepthook

        def moved(tensor: Any) -> Any:
            with torch.DisableTorchFunction():  # else the mode would take it from outside
                unplaced = type(tensor) is torch.Tensor and self.outside.is_unplaced(tensor)
                return tensor.to(self._device) if unplaced and self.use() else tensor

        def learn(function: Any, made: Any) -> None:
            with torch.DisableTorchFunction():
                if not self.named:
                    self.outside.made(function, made)

        def new_parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
            made = new(cls, moved(data), requires_grad)
            learn(new, made)
            return made

        def loaded(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            if map_location is None and self.use():
                map_location = self._device
            with torch.DisableTorchFunction():
                return load(file, map_location, *args, **kwargs)

        def in_mode(function: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(function)
            def run(*args: Any, **kwargs: Any) -> Any:
                with self._mode:
                    return function(*args, **kwargs)

            return run

        def swapped(*tensors: torch.Tensor) -> None:
            self.outside.let_go(tensors)
            swap(*tensors)
            learn(swap, tensors)

        def moving_first(function: Callable[..., Any]) -> Callable[..., Any]:
            def run(tensor: torch.Tensor, *args: Any) -> Any:
                with torch.DisableTorchFunction():
                    self.move(function, (tensor,), {})
                return function(tensor, *args)

            return run

        def with_hooks(self: Any, pack: Any, unpack: Any) -> None:
            hooks(self, in_mode(pack), in_mode(unpack))

        return {
            **_ASKED,
            (threading.Thread, "_bootstrap_inner"): in_mode(bootstrap),
            (_WorkItem, "run"): in_mode(run_item),
            (threading, "excepthook"): lambda args: None if self.starts_again else report(args),
            (saved_tensors_hooks, "__init__"): with_hooks,
            (BackwardCFunction, "apply"): in_mode(applied),
            (torch.nn.Parameter, "__new__"): staticmethod(new_parameter),
            (torch, "load"): loaded,
            (torch.utils, "swap_tensors"): swapped,
            (transforms, "_wrap_for_grad"): moving_first(vars(transforms)["_wrap_for_grad"]),
            (vmap, "_add_batch_dim"): moving_first(vars(vmap)["_add_batch_dim"]),
            (torch, "from_numpy"): lambda array: moved(from_numpy(array)),
        }

    def use(self) -> bool:
        """Returns True if a tensor without a device is made on this one."""
        if not self.named:
            self._used = True
        return not self.named

    def is_named(self, values: Iterable[Any]) -> bool:
        """Returns True if one of the values is CUDA's name, or its number.

        A ``torch.device`` with an index may be that of a tensor, which is a name too where the
        program has tensors, as those of ``qkv``, that are on the device whatever it names.
        """
        for value in values:
            if type(value) is torch.device:
                if value.type == "cuda" and (value.index is None or self._has_inputs):
                    return True
            elif type(value) is DeviceName:  # this package wrote it, and no program
                self._has_inputs = True
            elif type(value) is str:
                if _NAME.fullmatch(value):
                    return True
            elif type(value) is int:
                return True
        return False

    def name_device(self) -> None:
        """Records that the program names the device.

        Raises:
            StartAgain: tensors without a named device are on the device already.
        """
        if self.may_start_again:
            found = f"'cuda' is named{at()}, after tensors were made without a device"
            self._belong_on_host(found)
            if threading.get_ident() == self._thread:  # others may wait for another thread
                raise StartAgain(found)
        self.named = True

    def failed(self, error: Exception) -> None:
        """Has the program run again that ended with an error, if its tensors may be to blame.

        They are on the device because the program named none; on the host, as in PyTorch, it may
        succeed. What is over a limit, or not known here, is not an error of that kind.
        """
        if self.may_start_again and not isinstance(error, (AttnMemError, torch.OutOfMemoryError)):
            self._belong_on_host(
                f"it ended with {shown(error, 160)}, and its tensors were on the device, though it"
                " named none"
            )

    def _belong_on_host(self, found: str) -> None:
        self.named, self.starts_again = True, found
        self._note(f"{found}, and this run cannot start again; name the device of each tensor")


class _OnDevice(TorchFunctionMode):
    """Gives the device to what makes tensors without one, and hears it named."""

    def __init__(self, device: torch.device, placement: Placement) -> None:
        super().__init__()
        self._device = device
        self._placement = placement
        self._makes = frozenset(_device_constructors())

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        placement = self._placement
        if func in _MOVES:
            if func is torch.Tensor.cuda or placement.is_named([*args[1:2], kwargs.get("device")]):
                placement.name_device()
        elif kwargs.get("device") is not None:
            if placement.is_named([kwargs["device"]]):
                placement.name_device()
        elif func in self._makes and not kwargs.get("pin_memory") and placement.use():
            kwargs["device"] = self._device
        placement.move(func, args, kwargs)
        if func in _TO_ARRAY and not placement.named and args[0].is_cuda:
            values = placement.read(args[0]).detach().requires_grad_(args[0].requires_grad)
            return _as_array(values, func, *args[1:], **kwargs)
        if not placement.named and _draws_on_host(func, args, kwargs):
            out = _drawn(func, args, kwargs)
        else:
            out = func(*args, **kwargs)
        if not placement.named:
            placement.outside.made(func, out)
        return out

    def patches(self) -> Patches:
        """Returns what has C++ code come here that calls a program's own functions."""
        autograd: Any = torch.autograd
        own, run_backward = vars(autograd.Function).get("apply"), getattr(*RUN_BACKWARD)

        def applied(kind: Any, *args: Any, **kwargs: Any) -> Any:
            self._placement.move(kind, args, kwargs)
            if own is None:
                inherited: Any = super(autograd.Function, kind)
                return inherited.apply(*args, **kwargs)
            return own.__get__(None, kind)(*args, **kwargs)  # C++ code's, from torch 2.15 on

        def run(*args: Any, **kwargs: Any) -> Any:
            with self:  # the call that starts a backward pass has left the mode
                return run_backward(*args, **kwargs)

        return {
            (autograd.Function, "apply"): classmethod(applied),
            RUN_BACKWARD: run,
        }


def _draws_on_host(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Returns True if a tensor of the device is to be drawn from a generator of the host."""
    generator = kwargs.get("generator")
    if generator is None or generator.device.type != "cpu":
        return False
    if func in _DRAWN:  # a program may name the host
        return torch.device(kwargs.get("device") or "cpu").type == "cuda" and "out" not in kwargs
    return func in _DRAWS and args[0].is_cuda and args[0].is_contiguous()


def _drawn(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Gives a tensor of the device the numbers that a generator of the host draws.

    A program without a device is written for the host, where the two go together.
    """
    with torch.no_grad():
        if func in _DRAWS:
            return args[0].copy_(func(torch.empty_like(args[0], device="cpu"), *args[1:], **kwargs))
        made = func(*args, **{**kwargs, "generator": None})
        values = func(*args, **{**kwargs, "device": "cpu", "requires_grad": False})
        made.detach().copy_(values)
        return made


def _as_array(values: torch.Tensor, func: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns an array with the values of a tensor that is on the device by no name.

    A program without a device is written for the host. It cannot write the tensor by the array.
    """
    array = func(values, *args, **kwargs)
    array.flags.writeable = False
    return array
