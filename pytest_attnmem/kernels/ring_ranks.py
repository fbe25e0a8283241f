"""A ring of ranks: each rank sends tensors to the next and receives from the previous one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from ..nulldevice.torchrun import LONE
from .input_checks import is_simulated

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ``size`` ranks of a group, seen from its member ``rank``."""

    group: ProcessGroup
    rank: int
    size: int

    def check_sizes(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        """Checks that all ranks have the same sizes, before a rank waits for tensors in vain.

        Where tensors have no data, as in a simulated run, there is nothing to see. Sizes of ranks
        that do not run, as on the null device, are exchanged and not compared.

        Raises:
            ValueError: on every rank, if they have not.
        """
        if is_simulated(q):
            return
        sizes = [*q.shape, k.shape[2], v.shape[3], q.element_size()]
        mine = torch.tensor(sizes, device=q.device)  # [7]
        every = mine.new_empty(self.size, 7)  # [R, 7]
        for owner, (found,) in self.circulate(mine):
            every[owner] = found
        if os.environ.get(LONE):  # nothing that another rank would send has a value
            return
        for rank, found in enumerate(every.tolist()):
            if found != sizes:
                raise ValueError(
                    "all ranks must have the same B, H, N/R, d, M/R, dv and itemsize, got"
                    f" {sizes} on rank {self.rank} and {found} on rank {rank}"
                )

    def circulate(self, *own: Tensor) -> Iterator[tuple[int, list[Tensor]]]:
        """Yields each rank, this one first, and its tensors while the next ones are on their way.

        There is room for two other ranks', made at once, so that every rank's peak is the same.
        """
        at_hand = [x.contiguous() for x in own]
        room = [[torch.empty_like(x) for x in at_hand] for _ in range(min(self.size - 1, 2))]
        for step in range(self.size - 1):
            coming = room[step % 2]
            works = self.exchange(at_hand, coming)
            yield (self.rank - step) % self.size, at_hand
            finish(works)
            at_hand = coming
        yield (self.rank + 1) % self.size, at_hand

    def exchange(self, sent: Sequence[Tensor], received: Sequence[Tensor]) -> list[dist.Work]:
        """Starts to send to the next rank and to receive from the previous rank."""
        after, before = (
            dist.get_global_rank(self.group, (self.rank + turn) % self.size) for turn in (1, -1)
        )
        works: list[dist.Work] = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, x, after, self.group) for x in sent]
            + [dist.P2POp(dist.irecv, x, before, self.group) for x in received]
        )
        return works


def finish(works: list[dist.Work]) -> None:
    """Waits for the started transfers."""
    for work in works:
        work.wait()


def join(group: ProcessGroup | None) -> Ranks:
    """Returns this process's place in the group, or among all processes.

    Raises:
        RuntimeError: there is no process group, or this process is not in it.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "ring needs a process group: call torch.distributed.init_process_group first"
        )
    group = dist.group.WORLD if group is None else group
    rank = dist.get_rank(group)
    if group is None or rank < 0:
        raise RuntimeError("ring needs a group with this process in it, got one without")
    return Ranks(group, rank, dist.get_world_size(group))
