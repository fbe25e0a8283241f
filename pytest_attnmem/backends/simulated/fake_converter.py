"""Fakes for tensors from outside the window: each stands for a tensor already on the device."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

from ...values.notes import leaves
from ...values.op_traits import op_traits
from .changed_tensors import MovedBuffers, settle
from .fake_tensor import CPU, IMPLICIT_CUDA, SimulatedTensor
from .left_on_host import leave_on_host
from .observer import DispatchedOp
from .pinned_memory import PinnedMemory
from .refused_subclasses import PLAIN, refusal
from .stand_ins import stands_for
from .transforms import outside_of_transforms
from .values import Values

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode

#: Gives a fake the values of a real tensor.
Take = Callable[[Any, torch.Tensor], None]


class FakeConverter:
    """The fakes of real tensors, kept as long as the real tensors are alive."""

    def __init__(
        self,
        fake_mode: SimulatedFakeMode,
        add_input: Callable[[Any], None],
        values: Values,
    ) -> None:
        self.in_session = False
        """True if programs see the device outside windows too, and may put tensors there."""
        self.pinned_memory = PinnedMemory()
        self.moved_buffers = MovedBuffers(values, lambda: self.in_session)
        self._fake_mode = fake_mode
        self._add_input = add_input
        self._values = values
        self._fakes: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self._storages: dict[int, tuple[weakref.ref[Any], torch.UntypedStorage]] = {}

    def clear(self, *, settled: bool = False) -> None:
        """Drops all fakes, so that the next program gets tensors as they are outside.

        Where ``settled``, these become what the last program made of them.
        """
        self.moved_buffers.put_back(settled=settled)
        for watch, fake in [*self._fakes.values()] if settled else ():
            if (real := watch()) is not None:
                settle(real, fake, self._values)
        self._fakes.clear()
        self._storages.clear()

    def leave_on_host(self) -> None:
        """Makes what a program that named no device left alive tensors of the host."""
        leave_on_host(self._fake_mode, self._values)

    def find(self, real: torch.Tensor) -> Any | None:
        """Returns the fake of ``real``, or None if it has none yet."""
        watch, fake = self._fakes.get(id(real), (None, None))
        return fake if watch is not None and watch() is real else None

    def is_converted(self, fake: Any) -> bool:
        """Returns True if ``fake`` stands for a tensor from outside."""
        return any(other is fake for _, other in self._fakes.values())

    def to_fake(self, real: torch.Tensor) -> Any:
        """Returns the fake of ``real``: same sizes, and views of one storage share a storage.

        Raises:
            CannotSimulate: no fake can stand for ``real``.
        """
        found = self.find(real)
        if found is not None:
            return found
        # The program does not make these calls.
        with torch._C.DisableTorchFunction(), outside_of_transforms():
            self._check(real)
            with no_dispatch():
                fake = self._make(real, self._is_on_host(real))
            if fake.fake_device.type == "cuda":
                self._add_input(fake)
            key = id(real)
            watch = weakref.ref(real, lambda _: self._fakes.pop(key, None))
            self._fakes[key] = watch, fake
            stands_for(fake, watch)
            if real.is_leaf and real.grad is not None:
                fake.grad = self.to_fake(real.grad)
        return fake

    def to_host_fake(self, real: torch.Tensor) -> Any:
        """Returns a fake on the host, without history, of a real tensor outside windows."""
        with torch._C.DisableTorchFunction(), outside_of_transforms(), no_dispatch():
            data = real.detach()
            self._check(data)
            fake = self._make(data, host=True, take=self._values.take)
        fake.__dict__["_host_data"] = data
        return fake

    def write_to_host(self, op: DispatchedOp, value: Callable[[Any], torch.Tensor]) -> None:
        """Writes what an operator outside windows wrote into the tensors that fakes stand for.

        Raises:
            CannotSimulate: nobody can know the values.
        """
        for position, name in op_traits(op.func).changed:
            changed = op.args[position] if position < len(op.args) else op.kwargs.get(name)
            for fake in leaves(changed):
                host = vars(fake).get("_host_data") if isinstance(fake, torch.Tensor) else None
                if host is not None:
                    values = value(fake)
                    with torch._C.DisableTorchFunction(), no_dispatch(), torch.no_grad():
                        host.copy_(values)

    def _is_on_host(self, real: torch.Tensor) -> bool:
        """Returns False for a tensor that counts as an input on the device."""
        if isinstance(real, FakeTensor):
            return bool(real.fake_device.type == "cpu")
        if real.device.type != "cpu":
            return False
        if (real.dim() == 0 and not real.requires_grad) or (
            self.in_session and self._fake_mode.device_named
        ):
            return True
        self._fake_mode.used_implicit_device |= self.in_session
        return False

    def _make(self, real: torch.Tensor, host: bool, take: Take | None = None) -> Any:
        known = take is None and real.untyped_storage()._cdata in self._storages
        elem = torch.empty(0, dtype=real.dtype, device="meta")
        elem.set_(self._storage(real), real.storage_offset(), real.shape, real.stride())
        device = CPU if host else IMPLICIT_CUDA
        fake = FakeTensor(self._fake_mode, elem, device)
        fake.__class__ = SimulatedTensor  # type: ignore[assignment]
        fake.__dict__["_fake_device"] = device  # FakeTensor keeps another object, as if named
        if isinstance(real, torch.nn.Parameter):
            fake._is_param = True
        if not known:  # else the program may have written to a view since
            (take or self._values.adopt)(fake, real)
        if not (real.is_inference() or fake.is_inference()):
            torch._C._autograd._unsafe_set_version_counter((fake,), (real._version,))
        return fake.requires_grad_(real.requires_grad)

    def _storage(self, real: torch.Tensor) -> torch.UntypedStorage:
        storage = real.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            made = torch.empty(storage.nbytes(), dtype=torch.uint8, device="meta")
            watch = weakref.ref(storage, lambda _: self._storages.pop(key, None))
            self._storages[key] = (watch, made.untyped_storage())
            if self.pinned_memory.holds(storage):
                self.pinned_memory.note(made.untyped_storage())
        return self._storages[key][1]

    def _check(self, real: torch.Tensor) -> None:
        refused = self._fake_mode.observer.refused
        kind = type(real)
        named = f"{list(real.shape)} {str(real.dtype).removeprefix('torch.')}"
        if not (kind in PLAIN or isinstance(real, FakeTensor)):
            raise refused(refusal(kind, f" {named}"))
        if real.layout is not torch.strided or real.is_quantized:
            layout = str(real.layout).removeprefix("torch.")
            raise refused(
                f"a {layout} tensor {named} from outside the window cannot be simulated; make it"
                " inside"
            )
        if real.grad_fn is not None:
            raise refused(
                f"a tensor {named} from outside the window has a history"
                f" ({type(real.grad_fn).__name__}), which cannot be simulated; compute it inside,"
                " or detach it"
            )
