"""``torch.load`` and ``pickle`` for a simulated device: reads on the host, then places tensors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
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


#: The attribute of a storage that was read, with the device where its tensors go.
_TARGET = "_attnmem_target"
_LIFT = torch.ops.aten.lift_fresh.default
_REBUILD: Callable[..., Any] = torch._utils._rebuild_tensor


def outside_windows(function_mode: SimulatedFunctionMode) -> Patches:
    """Returns patches whose tensors are PyTorch's own, but for those on the device."""

    def place(tensor: torch.Tensor, target: Target | None) -> torch.Tensor | None:
        on_device = target is not None and torch.device(target).type == "cuda"
        return function_mode.moves.to(tensor, target) if on_device else None

    return _patches(place, nullcontext, lambda tensor: tensor)


def inside(fake_mode: SimulatedFakeMode, function_mode: SimulatedFunctionMode) -> Patches:
    """Returns patches whose tensors are all simulated."""

    def place(tensor: torch.Tensor, target: Target | None) -> torch.Tensor | None:
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

    return _patches(place, without_modes, take)


def _patches(
    place: Place,
    plain: Callable[[], AbstractContextManager[None]],
    take: Callable[[torch.Tensor], torch.Tensor],
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
        **dict.fromkeys(((torch, "load"), (torch.serialization, "load")), _load(place, plain)),
        (torch._utils, "_rebuild_tensor"): rebuild_read,
    }


def _whole(storage: Any) -> Any:
    """Returns a tensor of all elements of a storage."""
    count = storage._untyped_storage.nbytes() // storage.dtype.itemsize
    return _REBUILD(storage, 0, (count,), (1,))


def _load(place: Place, plain: Callable[[], AbstractContextManager[None]]) -> Callable[..., Any]:
    load = torch.serialization.load

    def run(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        targets: dict[int, tuple[Any, Target | None]] = {}  # with the storage, which stays alive
        placed: dict[int, torch.Tensor] = {}

        def locate(storage: Any, location: str) -> Any:
            target = _target(map_location, location)
            if callable(map_location):
                storage = map_location(storage, location) or storage
            targets[storage._cdata] = (storage, target)
            setattr(storage, _TARGET, target)
            return storage

        def rebuild(storage: Any, offset: int, size: Any, stride: Any) -> Any:
            key = storage._untyped_storage._cdata
            _, target = targets.get(key, (None, None))
            if key not in placed:
                whole = place(_whole(storage), target)
                if whole is None:
                    return _REBUILD(storage, offset, size, stride)
                placed[key] = whole
            return placed[key].as_strided(size, stride, offset).detach()

        with ExitStack() as contexts:
            contexts.enter_context(plain())
            contexts.enter_context(patched({(torch._utils, "_rebuild_tensor"): rebuild}))
            contexts.callback(placed.clear)  # PyTorch's unpickler is a cycle, which holds it
            return load(f, locate, *args, **kwargs)

    return run


def _target(map_location: Any, location: str) -> Target | None:
    """Returns the device of a storage that a file has on ``location``.

    It is None for a storage of the host that the call does not move.
    """
    if isinstance(map_location, dict):
        map_location = map_location.get(location)
    if map_location is None or callable(map_location):
        return None if location == "cpu" else location
    return map_location if isinstance(map_location, torch.device) else str(map_location)
