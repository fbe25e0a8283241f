"""``torch.load`` for a simulated device: files are read on the host, then tensors are placed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .patched import patched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .fake_mode import SimulatedFakeMode
    from .function_mode import SimulatedFunctionMode

#: Puts a tensor of a file on a device, ``None`` if the call names none; returns None to leave it.
Place = Callable[[torch.Tensor, "str | None"], "torch.Tensor | None"]


def outside_windows(function_mode: SimulatedFunctionMode) -> Callable[..., Any]:
    """Returns a ``torch.load`` whose tensors are PyTorch's own, but for those on the device."""

    def place(tensor: torch.Tensor, target: str | None) -> torch.Tensor | None:
        on_device = target is not None and target.partition(":")[0] == "cuda"
        return function_mode.tensor_to(tensor, target) if on_device else None

    return _load(place, nullcontext)


def inside(
    fake_mode: SimulatedFakeMode, function_mode: SimulatedFunctionMode
) -> Callable[..., Any]:
    """Returns a ``torch.load`` whose tensors are all simulated."""

    def place(tensor: torch.Tensor, target: str | None) -> torch.Tensor | None:
        with torch._C._EnableTorchFunction(), fake_mode, function_mode:
            return tensor.clone() if target is None else tensor.to(target, copy=True)

    @contextmanager
    def without_modes() -> Iterator[None]:
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            yield

    return _load(place, without_modes)


def _load(place: Place, plain: Callable[[], AbstractContextManager[None]]) -> Callable[..., Any]:
    load = torch.serialization.load
    rebuild_plainly: Callable[..., Any] = torch._utils._rebuild_tensor

    def run(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        targets: dict[int, tuple[Any, str | None]] = {}  # with the storage, which stays alive
        placed: dict[int, torch.Tensor] = {}

        def locate(storage: Any, location: str) -> Any:
            target = _target(map_location, location)
            if callable(map_location):
                storage = map_location(storage, location) or storage
            targets[storage._cdata] = (storage, target)
            return storage

        def rebuild(storage: Any, offset: int, size: Any, stride: Any) -> Any:
            key = storage._untyped_storage._cdata
            _, target = targets.get(key, (None, None))
            if key not in placed:
                count = storage._untyped_storage.nbytes() // storage.dtype.itemsize
                whole = place(rebuild_plainly(storage, 0, (count,), (1,)), target)
                if whole is None:
                    return rebuild_plainly(storage, offset, size, stride)
                placed[key] = whole
            return placed[key].as_strided(size, stride, offset).detach()

        with ExitStack() as contexts:
            contexts.enter_context(plain())
            contexts.enter_context(patched({(torch._utils, "_rebuild_tensor"): rebuild}))
            return load(f, locate, *args, **kwargs)

    return run


def _target(map_location: Any, location: str) -> str | None:
    """Returns the device of a storage that a file has on ``location``.

    It is None for a storage of the host that the call does not move.
    """
    if isinstance(map_location, dict):
        map_location = map_location.get(location)
    if map_location is None or callable(map_location):
        return None if location == "cpu" else location
    return str(map_location)
