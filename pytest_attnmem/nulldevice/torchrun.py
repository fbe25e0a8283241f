"""The environment that torchrun gives to a rank, for one rank at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .counts import runtime

#: Set for a process that is a rank whose other ranks do not run.
LONE: Final = "ATTNMEM_NULL_LONE_RANK"
#: The folder in which the ranks of a run leave what they send to each other.
MAIL: Final = "ATTNMEM_NULL_MAIL"


def rank_environment(rank: int, world: int, devices: int) -> dict[str, str]:
    """Returns torchrun's variables for a rank of a world whose nodes have so many devices.

    The variables are those of torch/distributed/elastic/agent/server/local_elastic_agent.py.
    """
    node, local = divmod(rank, devices)
    variables = {
        "RANK": rank,
        "LOCAL_RANK": local,
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": min(devices, world - node * devices),
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": -(-world // devices),
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": "default",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": 29500,
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCHELASTIC_RUN_ID": "attnmem",
        "TORCH_NCCL_ENABLE_MONITORING": 0,  # its thread would ask a store that has no other rank
        LONE: 1,
    }
    return {name: str(value) for name, value in variables.items()}


def begin(folder: Path, rank: int) -> None:
    """Records that a rank starts."""
    (folder / f"{rank}.started").touch()


def end(folder: Path, rank: int) -> None:
    """Records that a rank posts nothing more."""
    (folder / f"{rank}.ended").touch()


def started(folder: Path, rank: int) -> bool:
    """Returns True if a rank runs or ran."""
    return (folder / f"{rank}.started").exists()


def ended(folder: Path, rank: int) -> bool:
    """Returns True if a rank ran to its end."""
    return (folder / f"{rank}.ended").exists()


@contextmanager
def splitting(ranks: int, rank: int) -> Iterator[None]:
    """Makes NCCL's communicators that are split inside have so many ranks, of which this is one.

    The other ranks decide the size of a split too.
    """
    runtime().attnmem_null_split(ranks, rank)
    try:
        yield
    finally:
        runtime().attnmem_null_split(0, 0)
