"""Tensors from outside a world: each stands for one on the device that was there before."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

from ...errors import CannotSimulate
from .fake_tensor import CPU, UNPLACED, SimulatedTensor

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode


class FakeConverter:
    """The fakes that stand for real tensors, as long as those live."""

    def __init__(self, world: SimulatedFakeMode, admit: Callable[[Any], None]) -> None:
        self._world = world
        self._admit = admit
        self._fakes: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self._storages: dict[int, tuple[weakref.ref[Any], torch.UntypedStorage]] = {}

    def forget(self) -> None:
        """Let the next program find tensors as they are, whatever one did to their fakes."""
        self._fakes.clear()
        self._storages.clear()

    def known(self, real: torch.Tensor) -> Any | None:
        """The fake that stands for ``real``, if there is one by now."""
        watch, fake = self._fakes.get(id(real), (None, None))
        return fake if watch is not None and watch() is real else None

    def stands_for_another(self, fake: Any) -> bool:
        """Whether ``fake`` stands for a tensor from outside."""
        return any(found is fake for _, found in self._fakes.values())

    def adopted(self, real: torch.Tensor) -> Any:
        """The fake that stands for ``real``: of its sizes, and of the same storage as its views.

        Raises:
            CannotSimulate: there can be none; the text says why.
        """
        found = self.known(real)
        if found is not None:
            return found
        with torch._C.DisableTorchFunction():  # what is asked of it, the program does not ask
            _check(real)
            with no_dispatch():
                fake = self._made(real)
            if fake.fake_device.type == "cuda":
                self._admit(fake)
            key = id(real)
            self._fakes[key] = (weakref.ref(real, lambda _: self._fakes.pop(key, None)), fake)
            if real.is_leaf and real.grad is not None:
                fake.grad = self.adopted(real.grad)
        return fake

    def _made(self, real: torch.Tensor) -> Any:
        host = real.dim() == 0 and not real.requires_grad and real.device.type == "cpu"
        if isinstance(real, FakeTensor):
            host = real.fake_device.type == "cpu"
        elem = torch.empty(0, dtype=real.dtype, device="meta")
        elem.set_(self._storage(real), real.storage_offset(), real.shape, real.stride())
        value = real.detach().clone() if host and not isinstance(real, FakeTensor) else None
        fake = FakeTensor(self._world, elem, CPU if host else UNPLACED, value)
        fake.__class__ = SimulatedTensor  # type: ignore[assignment]
        if value is not None:  # it may be asked for
            self._world.fake_tensor_converter.add_constant_storage_mapping(fake)
        if isinstance(real, torch.nn.Parameter):
            fake._is_param = True
        return fake.requires_grad_(real.requires_grad)

    def _storage(self, real: torch.Tensor) -> torch.UntypedStorage:
        storage = real.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            made = torch.empty(storage.nbytes(), dtype=torch.uint8, device="meta")
            watch = weakref.ref(storage, lambda _: self._storages.pop(key, None))
            self._storages[key] = (watch, made.untyped_storage())
        return self._storages[key][1]


def _check(real: torch.Tensor) -> None:
    kind = type(real)
    named = f"{list(real.shape)} {str(real.dtype).removeprefix('torch.')}"
    if not (kind in (torch.Tensor, torch.nn.Parameter) or isinstance(real, FakeTensor)):
        raise CannotSimulate(
            f"a {kind.__name__} {named} from outside the window cannot stand for a simulated"
            " tensor; make it inside"
        )
    if real.layout is not torch.strided or real.is_quantized:
        layout = str(real.layout).removeprefix("torch.")
        raise CannotSimulate(
            f"a {layout} tensor {named} from outside the window cannot stand for a simulated one;"
            " make it inside"
        )
    if real.grad_fn is not None:
        raise CannotSimulate(
            f"a tensor {named} from outside the window has a history"
            f" ({type(real.grad_fn).__name__}), which cannot be simulated; compute it inside, or"
            " detach it"
        )
