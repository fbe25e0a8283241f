"""Makes PyTorch's process groups of many ranks in one process, which is one of the ranks.

PyTorch's own ``ProcessGroupNCCL`` runs over the null device's NCCL. Two things need other ranks
before a first collective: the store, where ranks meet, and the groups of the host (Gloo). A
:class:`LoneStore` takes the place of the store, and PyTorch's fake process group, which moves
nothing, that of Gloo. The sizes of device meshes are noted by their dimensions' names: ``tp``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import torch
from torch._C._distributed_c10d import FakeProcessGroup, Store

from ...errors import UnknownValue
from ...nulldevice.torchrun import splitting
from ..import_watch import after_import
from .collective_rules import hear_reductions

#: The variables of torchrun's that say which rank a process is, of how many.
RANK, WORLD_SIZE = "RANK", "WORLD_SIZE"

_KEPT = "_attnmem_lone_rank"
#: The backend of the host.
HOST = "gloo"
#: The key of a communicator's identity: the backend of the device asks for it, and nobody else.
_IDENTITY = "/cuda//"
_NO_IDENTITY = bytes(128)  # ncclUniqueId; the null device's NCCL does not look at it


class LoneStore(Store):
    """A store of one rank, which never waits for another."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: str | bytes) -> None:
        """Stores a value."""
        self._values[key] = value if isinstance(value, bytes) else str(value).encode()

    def get(self, key: str) -> bytes:
        """Returns a value that this rank stored, or the identity of a communicator.

        Raises:
            UnknownValue: another rank would have stored it.
        """
        found = self._values.get(key)
        if found is None and _IDENTITY in key:
            return _NO_IDENTITY
        if found is None:
            raise UnknownValue(
                f"the store has no value {key!r}: another rank stores it, and one rank runs"
            )
        return found

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, and returns it."""
        total = int(self._values.get(key, b"0")) + amount
        self._values[key] = str(total).encode()
        return total

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Stores ``desired`` in the place of ``expected``, or of nothing; returns what is there."""
        if self._values.get(key, expected.encode()) == expected.encode():
            self.set(key, desired)
        return self._values[key]

    def check(self, keys: Sequence[str]) -> bool:
        """Returns True if this rank stored all these."""
        return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        """Returns at once: nobody else is there to wait for."""

    def delete_key(self, key: str) -> bool:
        """Removes a value; returns True if it was there."""
        return self._values.pop(key, None) is not None

    def clone(self) -> LoneStore:
        """Returns this store, for a group that is split from another."""
        return self

    def num_keys(self) -> int:
        """Returns the number of values."""
        return len(self._values)


def be_alone() -> None:
    """Makes this process a rank of a world whose other ranks do not run.

    Torchrun's variables of the environment say which, at the time that ranks meet. A program that
    gives its rank and the size of its world to ``init_process_group`` is that rank.
    """
    after_import(_MODULE, _noted)
    forget_meshes()  # those of earlier ranks
    after_import("torch.distributed.distributed_c10d", _replace)
    after_import("torch.distributed.pipelining.stage", _vote_alone)


def lone_ranks(c10d: ModuleType) -> int:
    """Returns how many ranks of many this process has been, one after another."""
    count: int = getattr(c10d, _KEPT, 0)
    return count


def has_groups() -> bool:
    """Returns True if this rank made process groups."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    return c10d is not None and bool(c10d.is_initialized())


def leave_groups() -> None:
    """Destroys the process groups of this rank, if it made any."""
    if has_groups():
        sys.modules["torch.distributed.distributed_c10d"].destroy_process_group()


def _replace(module: ModuleType) -> None:
    """Replaces where ranks meet (``rendezvous``) and which backend a device has."""
    c10d: Any = module
    setattr(c10d, _KEPT, lone_ranks(c10d) + 1)
    if lone_ranks(c10d) > 1:
        return
    met: list[LoneStore] = []  # C++ code keeps a store alive, and not its methods

    def rendezvous(
        url: str, rank: int = -1, world_size: int = -1, **_: Any
    ) -> Iterator[tuple[Store, int, int]]:
        met.append(LoneStore())
        yield (
            met[-1],
            rank if rank >= 0 else int(os.environ[RANK]),
            world_size if world_size >= 0 else int(os.environ[WORLD_SIZE]),
        )

    c10d.rendezvous = rendezvous
    if hasattr(c10d.ProcessGroup, "split_group"):  # since PyTorch 2.9
        c10d.ProcessGroup.split_group = _told(c10d.ProcessGroup.split_group)
    hear_reductions(c10d.ProcessGroup)
    fake_in_place_of(HOST, module)


def _told(split_group: Any) -> Any:
    """Returns ``ProcessGroup.split_group`` that tells NCCL the size of the group that it makes."""

    def told(self: Any, ranks: Sequence[int], *args: Any, **kwargs: Any) -> Any:
        own = self.rank()
        if own not in ranks:
            return split_group(self, ranks, *args, **kwargs)
        with splitting(len(ranks), ranks.index(own)):
            return split_group(self, ranks, *args, **kwargs)

    return told


def _vote_alone(module: ModuleType) -> None:
    """Makes a stage of a pipeline take its own vote for that of all stages.

    Stages vote if the shapes between them are given (``_warmup_forward_vote`` in 2.13 and 2.14),
    and the result comes from a rank that does not run.
    """
    stage: Any = module.PipelineStage
    if not hasattr(stage, "_warmup_forward_vote") or hasattr(module, _KEPT):
        return
    setattr(module, _KEPT, True)
    vote, result = stage._warmup_forward_vote, stage._warmup_backward_result

    def voted(self: Any, has_backward: bool, received_acc: Any = None) -> Any:
        vote(self, has_backward, received_acc)
        mode: Any = module.InferenceMode
        own = 0 if mode.needs_dynamic(self._user_meta, has_backward) else 1
        self._attnmem_vote = torch.tensor([own], dtype=torch.int32, device=self.device)
        return self._attnmem_vote

    def resulted(self: Any, received_result: Any = None) -> Any:
        result(self, received_result)
        return self._attnmem_vote

    stage._warmup_forward_vote, stage._warmup_backward_result = voted, resulted


_MODULE = "torch.distributed.device_mesh"
_SIZES = "_attnmem_sizes"


def forget_meshes() -> None:
    """Forgets the sizes of all meshes."""
    getattr(sys.modules.get(_MODULE), _SIZES, {}).clear()


def mesh_sizes() -> dict[str, int]:
    """Returns the size of each named dimension; without the names that have two sizes."""
    noted = getattr(sys.modules.get(_MODULE), _SIZES, {})
    return {name: next(iter(sizes)) for name, sizes in noted.items() if len(sizes) == 1}


def _noted(module: ModuleType) -> None:
    """Makes each new mesh note its sizes."""
    mesh: Any = module.DeviceMesh
    if hasattr(module, _SIZES):
        return
    noted: dict[str, set[int]] = {}
    setattr(module, _SIZES, noted)
    make = mesh.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        for name, size in zip(self.mesh_dim_names or (), self.shape, strict=False):
            noted.setdefault(name, set()).add(int(size))

    mesh.__init__ = made


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
    group: Any = FakeProcessGroup
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
