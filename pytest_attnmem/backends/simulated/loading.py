"""``torch.load`` and ``pickle`` for a simulated device: reads on the host, then places tensors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import _disable_current_modes

from .patched import Patches, patched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .fake_mode import SimulatedFakeMode
    from .function_mode import SimulatedFunctionMode

#: A device that a program names.
Target = torch.device | str
#: Puts a tensor of a file on a device, ``None`` if the call names none; returns None to leave it.
Place = Callable[[torch.Tensor, Target | None], torch.Tensor | None]
#: Gives a tensor that was placed the values of the tensor that was read.
Fill = Callable[[torch.Tensor, torch.Tensor], None]

#: The attribute of a storage that was read, with the device where its tensors go.
_TARGET = "_attnmem_target"
#: The attribute that PyTorch sets of a storage whose contents it reads after it made the tensors.
_READ_LATER = "_torch_load_uninitialized"
_HOST: Final = "cpu"
_LIFT = torch.ops.aten.lift_fresh.default
_REBUILD: Callable[..., Any] = torch._utils._rebuild_tensor


def outside_windows(fake_mode: SimulatedFakeMode, function_mode: SimulatedFunctionMode) -> Patches:
    """Returns patches whose tensors are PyTorch's own, but for those on the device."""

    def place(tensor: torch.Tensor, target: Target | None) -> torch.Tensor | None:
        on_device = target is not None and torch.device(target).type == "cuda"
        return function_mode.moves.to(tensor, target) if on_device else None

    return _patches(place, nullcontext, lambda tensor: tensor, _fill(fake_mode))


def inside(fake_mode: SimulatedFakeMode, function_mode: SimulatedFunctionMode) -> Patches:
    """Returns patches whose tensors are all simulated."""

    def place(tensor: torch.Tensor, target: Target | None) -> torch.Tensor | None:
        if target is not None and torch.device(target).type == "meta":
            return tensor.to(target)
        if target is None and fake_mode.device_named:
            target = _HOST  # as the program's own tensors without a device
        tensor = tensor.clone()  # a file's memory looks like an array's, which each operator copies
        with fake_mode.in_turn(), torch._C._EnableTorchFunction(), fake_mode, function_mode:
            return tensor.clone() if target is None else tensor.to(target, copy=True)

    @contextmanager
    def without_modes() -> Iterator[None]:
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            yield

    def take(tensor: torch.Tensor) -> torch.Tensor:
        with fake_mode.in_turn(), torch._C.DisableTorchFunction(), fake_mode:
            return _LIFT(tensor)  # type: ignore[no-any-return]

    return _patches(place, without_modes, take, _fill(fake_mode))


def _fill(fake_mode: SimulatedFakeMode) -> Fill:
    def fill(placed: torch.Tensor, read: torch.Tensor) -> None:
        with fake_mode.in_turn(), torch._C.DisableTorchFunction(), no_dispatch():
            fake_mode.values.take(placed, read)

    return fill


def _patches(
    place: Place,
    plain: Callable[[], AbstractContextManager[None]],
    take: Callable[[torch.Tensor], torch.Tensor],
    fill: Fill,
) -> Patches:
    def rebuild_read(storage: Any, offset: int, size: Any, stride: Any) -> Any:
        """Places a tensor of ``pickle``, which asks ``torch.load`` for the storage alone."""
        untyped = storage._untyped_storage
        if not hasattr(untyped, _TARGET):  # memory that another process shares, say
            with plain():
                read = _REBUILD(storage, offset, size, stride)
            return take(read)
        with plain():
            whole = place(_whole(storage), getattr(untyped, _TARGET))
            if whole is None:
                return _REBUILD(storage, offset, size, stride)
            return whole.as_strided(size, stride, offset).detach()

    return {
        **dict.fromkeys(
            ((torch, "load"), (torch.serialization, "load")), _load(place, plain, fill)
        ),
        (torch._utils, "_rebuild_tensor"): rebuild_read,
    }


def _whole(storage: Any) -> Any:
    """Returns a tensor of all elements of a storage."""
    count = storage._untyped_storage.nbytes() // storage.dtype.itemsize
    return _REBUILD(storage, 0, (count,), (1,))


def _load(
    place: Place, plain: Callable[[], AbstractContextManager[None]], fill: Fill
) -> Callable[..., Any]:
    load = torch.serialization.load

    def run(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        found: dict[int, _Located] = {}
        placed: dict[int, torch.Tensor] = {}
        later: list[tuple[torch.Tensor, torch.Tensor]] = []

        def locate(storage: Any, location: str) -> Any:
            located = _located(map_location, storage, location)
            found[located.storage._cdata] = located
            setattr(located.storage, _TARGET, located.target)
            return located.storage

        def rebuild(storage: Any, offset: int, size: Any, stride: Any) -> Any:
            key = storage._untyped_storage._cdata
            located = found.get(key)
            if key not in placed:
                read = _whole(storage)
                whole = place(read, None if located is None else located.target)
                if whole is None:
                    return _REBUILD(storage, offset, size, stride)
                placed[key] = whole
                if located is not None and located.read_later:
                    later.append((whole, read))
            return placed[key].as_strided(size, stride, offset).detach()

        with ExitStack() as contexts:
            contexts.enter_context(plain())
            contexts.enter_context(
                patched({(torch._utils, "_rebuild_tensor"): rebuild, **_ON_HOST})
            )
            for tensors in (placed, later):  # PyTorch's unpickler is a cycle, which holds them
                contexts.callback(tensors.clear)
            loaded = load(f, locate, *args, **kwargs)
            for whole, read in later:
                fill(whole, read)
            return loaded

    return run


class _Located(NamedTuple):
    """A storage of a file."""

    storage: Any
    """Memory of the host, which stays alive."""
    target: Target | None
    """The device of its tensors; None for one of the host that the call does not move."""
    read_later: bool
    """True if PyTorch reads the contents after it made the tensors."""


def _located(map_location: Any, storage: Any, location: str) -> _Located:
    """Returns a storage that a file has on ``location``, and where the program wants it."""
    given: Any = None
    if isinstance(map_location, dict):
        given = map_location.get(location)
    elif callable(map_location):
        moved = map_location(storage, location)
        if moved is not None and moved is not storage:
            return _Located(moved, getattr(moved, _TARGET, _HOST), hasattr(storage, _READ_LATER))
        given = None if moved is None or location == _HOST else _HOST
    elif map_location is not None:
        given = map_location if isinstance(map_location, torch.device) else str(map_location)
    if given is None and location != _HOST:
        given = location
    return _Located(storage, given, hasattr(storage, _READ_LATER))


def _new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    """Makes a storage of the host where PyTorch, or the program's function, moves one."""
    made = torch._C.StorageBase.__new__(cls, *args, **kwargs)
    if device is not None:
        setattr(made, _TARGET, torch.device(device))
    return made


#: The storages that a call reads into are on the host, whatever the program's are on.
_ON_HOST: Final[Patches] = MappingProxyType(
    {
        (torch.UntypedStorage, "__init__"): torch.UntypedStorage.__init__,
        (torch.UntypedStorage, "__new__"): staticmethod(_new),
    }
)
