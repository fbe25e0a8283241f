"""PyTorch's own process group that moves nothing, in the place of one that needs other ranks."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import torch

#: The name of its backend.
FAKE: Final = "fake"
_REPLACED: Final = "_attnmem_fakes"


def fake_in_place_of(
    name: str, module: ModuleType, wanted: Callable[[], bool] = lambda: True
) -> None:
    """Has PyTorch make fake groups where a program asks for that backend, while they are wanted."""
    c10d: Any = module
    if hasattr(c10d, f"_create_{name}_process_group"):
        _take_plugin(c10d.Backend, name, wanted)
    else:  # before 2.14, PyTorch makes these groups without its table of backends
        _configure(c10d.BackendConfig, name, wanted)


def _fake_group(options: Any) -> Any:
    group: Any = torch._C._distributed_c10d.FakeProcessGroup
    return group._create_internal(options.group_rank, options.group_size, group.Options())


def _take_plugin(backend: Any, name: str, wanted: Callable[[], bool]) -> None:
    before = backend._plugins.get(name.upper())

    def made(options: Any, own: Any) -> Any:
        if wanted() or before is None:
            return _fake_group(options)
        return before.creator_fn(options, own)

    backend._plugins[name.upper()] = backend._BackendPlugin(made, True)


def _configure(config: Any, name: str, wanted: Callable[[], bool]) -> None:
    """Makes a configuration take the fake backend in the place of another."""
    replaced: dict[str, Callable[[], bool]] | None = getattr(config, _REPLACED, None)
    if replaced is not None:
        replaced[name] = wanted
        return
    replaced = {name: wanted}
    setattr(config, _REPLACED, replaced)
    configure = config.__init__

    def configured(self: Any, backend: Any) -> None:
        configure(self, backend)
        backends = self.device_backend_map
        fakes = {one for one, wanted in replaced.items() if one in backends.values() and wanted()}
        if fakes:
            import_module("torch.testing._internal.distributed.fake_pg")  # registers it
            self.device_backend_map = {
                device: FAKE if one in fakes else one for device, one in backends.items()
            }

    config.__init__ = configured
