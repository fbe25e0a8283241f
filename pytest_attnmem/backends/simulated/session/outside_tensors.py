"""Tensors of the host from before a window, where a program is measured that names no device.

All of its tensors count as on the device: its module's too, and those of fixtures. Such a tensor
moves when the program first uses it, as ``Module.to`` moves a parameter: the same object, with
other data, so that autograd, optimizers and modules find it. After the window it is on the host
again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary, ref

import torch

from ....errors import CannotCompute, CannotSimulate, UnknownValue
from ....values.dispatcher import past_modes, past_transforms
from ....values.tape import Tape
from ..program_errors import at
from ..pytorch_device.kernels import tensors_in, unwrapped
from ..pytorch_device.tensors import Stored, TensorMaker, place

#: The floating-point operations that a test may cost for what later tests read of its fixtures.
_WORK_OF_A_TEST: Final = 10**7
#: What reads a tensor where it is.
_READS: Final = frozenset(
    getattr(torch.Tensor, name)
    for name in (
        *("__array__", "__format__", "__len__", "__repr__", "item", "numpy", "tolist"),
        *("untyped_storage", "_typed_storage", "storage"),
    )
)
#: Attributes that depend on the device, or that are other tensors.
_OF_DEVICE: Final = frozenset({"device", "is_cuda", "is_cpu", "grad", "data", "T", "mT", "H", "mH"})
#: Functions whose result is memory of the program: it may be made for the device.
_OF_MEMORY: Final = frozenset(
    getattr(torch, name)
    for name in ("from_numpy", "frombuffer", "as_tensor", "asarray", "from_dlpack")
)


#: The types of tensors that may have other data; a subclass may be more than its data.
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


class _Moved(NamedTuple):
    """What a tensor that has moved was on the host."""

    tensor: ref[torch.Tensor]
    data: torch.Tensor
    gradient: ref[torch.Tensor] | None
    """Not the tensor itself, whose memory is free once the program drops it."""
    gradient_data: torch.Tensor | None
    requires_grad: bool

    def gradient_before(self) -> torch.Tensor | None:
        """Returns the gradient, or another tensor of its data if the program dropped it."""
        found = None if self.gradient is None else self.gradient()
        return self.gradient_data if found is None else found


class OutsideTensors:
    """The tensors of one window that have moved, and those of the host that stay there."""

    def __init__(
        self,
        maker: TensorMaker,
        tape: Tape,
        new_older: Callable[[int], Stored],
        refuse: Callable[[str], CannotSimulate],
    ) -> None:
        """``new_older`` makes a storage of so many bytes that is older than the window."""
        self._maker = maker
        self._tape = tape
        self._new_older = new_older
        self._refuse = refuse
        self._nothing = maker.ghost((0,), (1,), torch.uint8)
        self._moved: dict[int, _Moved] = {}
        self._on_device: dict[int, ref[torch.Tensor]] = {}
        """A tensor that has moved, by the address of its storage on the host."""
        self._of_host = WeakValueDictionary[int, torch.Tensor]()
        """The tensors that the window has made on the host, by their ids."""
        self._left = WeakValueDictionary[int, torch.Tensor]()
        """Those that it has made on the device, though it named none."""

    def use(self, func: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool:
        """Moves the tensors of a call; returns True if it has some.

        Raises:
            CannotSimulate: one has a history, which was made on the host.
        """
        if func in _READS:
            return False
        owner = getattr(func, "__self__", None)
        if owner is not None and func.__name__ == "__get__" and owner.__name__ not in _OF_DEVICE:
            return False
        given = {
            id(tensor): tensor
            for one in tensors_in((*args, *kwargs.values()))
            if (tensor := unwrapped(one)).is_cpu
        }
        found = [*filter(self._is_ours, given.values())]
        if found:
            with past_transforms(), past_modes(), torch.no_grad():
                for tensor in found:
                    if _is_new(tensor):
                        self._refuse(
                            "a tensor was made on the host by code that PyTorch gives no device,"
                            f" such as torch.Tensor(…), and was used{at()}; name its device"
                        )
                    self._move(tensor)
        return bool(found)

    def made(self, func: Any, out: Any) -> None:
        """Learns what a call has made on the host, where it stays, or on the device by no name."""
        for tensor in tensors_in((out,)):
            if not tensor.is_cpu:
                self._left[id(tensor)] = tensor
            elif func not in _OF_MEMORY:
                self._of_host[id(tensor)] = tensor

    def is_unplaced(self, tensor: torch.Tensor) -> bool:
        """Returns True for a tensor on the host that the program has not put there."""
        return tensor.is_cpu and self._of_host.get(id(tensor)) is not tensor

    def let_go(self, tensors: Iterable[torch.Tensor]) -> None:
        """Forgets tensors that swap their contents: PyTorch wants no weak references to them."""
        for tensor in tensors:
            self._moved.pop(id(tensor), None)
            self._of_host.pop(id(tensor), None)
            self._left.pop(id(tensor), None)
            of_it = [start for start, one in self._on_device.items() if one() is tensor]
            for start in of_it:
                del self._on_device[start]

    def leave_on_host(self) -> None:
        """Moves what a program without a device has left, as in a cache, to the host.

        What takes much work to know stays on the device.
        """
        left, self._left = [*self._left.values()], WeakValueDictionary()
        with torch.DisableTorchFunction(), torch.no_grad(), past_modes():
            for tensor in left:
                if self._maker.is_here(tensor) and (values := self._affordable(tensor)) is not None:
                    tensor.data = values.clone()

    def put_back(self, *, settled: bool) -> None:
        """Moves the tensors to the host.

        Where ``settled``, they have the values and the gradients there that the program gave them,
        unless these take much work; else they are what they were.
        """
        moved, self._moved = [*self._moved.values()], {}
        self._on_device.clear()
        with torch.DisableTorchFunction(), torch.no_grad(), past_modes():
            back = [
                (tensor, before)
                for before in moved
                if (tensor := before.tensor()) is not None and self._maker.is_here(tensor)
            ]
            gradients = [self._gradient_after(*each, settled=settled) for each in back]
            for tensor, before in back:
                data = before.data
                if settled and (tensor.shape, tensor.dtype) != (data.shape, data.dtype):
                    data = torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
                if settled:
                    self._write(data, tensor)
                tensor.data = data
                if not settled:
                    if not tensor.is_leaf:
                        tensor.detach_()
                    tensor.requires_grad_(before.requires_grad)
            for (tensor, _), gradient in zip(back, gradients, strict=True):
                tensor.grad = gradient

    def _is_ours(self, tensor: torch.Tensor) -> bool:
        if not self.is_unplaced(tensor) or (tensor.dim() == 0 and not tensor.requires_grad):
            return False
        if type(tensor) not in _PLAIN:
            return False
        may_move = torch._has_compatible_shallow_copy_type(tensor, self._nothing)
        if tensor.is_quantized or not may_move:
            layout = str(tensor.layout).removeprefix("torch.")
            kind = "quantized" if tensor.is_quantized else "nested" if tensor.is_nested else layout
            raise self._refuse(
                f"a {kind} tensor from outside the window cannot be simulated;"
                " use backend='null' or 'cuda'"
            )
        return not (tensor.is_conj() or tensor.is_neg() or hasattr(tensor, "__tensor_flatten__"))

    def _move(self, tensor: torch.Tensor) -> None:
        if tensor.grad_fn is not None:
            named = f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
            raise self._refuse(
                f"a tensor {named} from outside the window has a history"
                f" ({type(tensor.grad_fn).__name__}), which cannot be simulated; compute it inside,"
                " or detach it"
            )
        data, gradient = tensor.detach(), tensor.grad
        self._moved[id(tensor)] = _Moved(
            ref(tensor),
            data,
            None if gradient is None else ref(gradient),
            None if gradient is None else self._host_data(gradient),
            tensor.requires_grad,
        )
        tensor.grad = None
        tensor.data = self._counterpart(data)
        self._on_device.setdefault(data.untyped_storage().data_ptr(), ref(tensor))
        if gradient is not None:
            if gradient.is_cpu:
                self._move(gradient)
            tensor.grad = gradient

    def _host_data(self, tensor: torch.Tensor) -> torch.Tensor:
        moved = self._moved.get(id(tensor))
        return tensor.detach() if moved is None or tensor.is_cpu else moved.data

    def _counterpart(self, data: torch.Tensor) -> torch.Tensor:
        """Returns a tensor of the device, which shares its storage as the one of the host does."""
        storage = data.untyped_storage()
        known = self._on_device.get(storage.data_ptr())
        first = None if known is None else known()
        if first is not None and self._maker.is_here(first):
            on_device = first.untyped_storage()
        else:
            nbytes = storage.nbytes()
            whole = self._maker.make(self._new_older(nbytes), (nbytes,), (1,), torch.uint8)
            self._tape.share(whole, data)
            on_device = whole.untyped_storage()
        made = self._maker.ghost((0,), (1,), data.dtype)
        place(made, on_device, int(data.storage_offset()), data.shape, data.stride())
        return made

    def _gradient_after(
        self, tensor: torch.Tensor, before: _Moved, *, settled: bool
    ) -> torch.Tensor | None:
        """Takes the gradient of a tensor away; returns the one that it has on the host."""
        gradient, tensor.grad = tensor.grad, None
        earlier = before.gradient_before()
        if not settled:
            return earlier
        if gradient is None or gradient is earlier or not self._maker.is_here(gradient):
            return gradient
        made = torch.zeros(gradient.shape, dtype=gradient.dtype, device="cpu")
        self._write(made, gradient)
        return made

    def _write(self, to: torch.Tensor, source: torch.Tensor) -> None:
        """Copies what the program has written, if nothing is unknown of it."""
        if to.shape == source.shape and self._tape.is_written(source):
            values = self._affordable(source)
            if values is not None:
                to.copy_(values)

    def _affordable(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Returns the values of a tensor; None if nobody knows them, or they take much work."""
        replay = self._tape.replay
        limit, replay.limit = replay.limit, min(replay.limit, _WORK_OF_A_TEST)
        try:
            return self._tape.value_of(tensor)
        except (CannotCompute, UnknownValue):
            return None
        finally:
            replay.limit = limit


def _is_new(tensor: torch.Tensor) -> bool:
    """Returns True for a tensor of this window, before which all garbage was collected.

    Python collects none while a window is open, so what is made then is of the youngest objects. So
    is an older gradient that Python sees for the first time.
    """
    return any(one is tensor for one in gc.get_objects(generation=0))
