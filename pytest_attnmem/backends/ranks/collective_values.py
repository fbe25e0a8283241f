"""Notes on a tape what collectives write, on a device whose collectives move nothing.

Sizes and objects that another rank sends are the true ones if that rank ran before.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from ...errors import UnknownValue
from ...nulldevice.torchrun import MAIL, ended, started
from ...values.tape import Tape
from .collective_rules import RULES, Group, Moved, group_of
from .lone_rank import lone_ranks

#: Larger tensors are data, and not sizes or objects.
_LARGEST = 1 << 24
_WAIT = 0.02


class Mail:
    """The letters of a run, and the number of letters so far by their sender and receiver."""

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder) if folder else None
        self._counts: Counter[str] = Counter()

    def post(self, between: str, values: torch.Tensor) -> None:
        """Posts the next letter; ``between`` names group, operation, sender and receiver."""
        path = self._next(between)
        if path is not None:
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(bytes(values.reshape(-1).view(torch.uint8).tolist()))
            part.rename(path)

    def take(self, between: str, sender: int, like: torch.Tensor) -> torch.Tensor | None:
        """Returns the next letter, shaped as ``like``; None if its sender did not run before."""
        path = self._next(between)
        if path is None:
            return None
        folder = path.parent
        while not path.is_file() and started(folder, sender) and not ended(folder, sender):
            time.sleep(_WAIT)
        if not path.is_file():
            return None
        content = bytearray(path.read_bytes())
        if len(content) != like.numel() * like.element_size() or not content:
            return None
        return torch.frombuffer(content, dtype=like.dtype).reshape(like.shape)

    def _next(self, between: str) -> Path | None:
        if self._folder is None:
            return None
        self._counts[between] += 1
        name = hashlib.sha256(f"{between} {self._counts[between]}".encode()).hexdigest()[:32]
        return self._folder / name


def is_whole(tensor: torch.Tensor) -> bool:
    """Returns True for a tensor that may be sizes, a seed or an object."""
    plain = not (tensor.is_floating_point() or tensor.is_complex())
    return plain and tensor.numel() * tensor.element_size() <= _LARGEST


_aten = torch.ops.aten


class CollectiveValues:
    """Notes what collectives write; keeps the mail of this rank."""

    def __init__(self, tape: Tape, on_host: Callable[[str], None]) -> None:
        self._tape = tape
        self._on_host = on_host
        """Called with the assumption if a collective writes a tensor of the host."""
        self._begin()

    def _begin(self) -> None:
        self._mail = Mail(os.environ.get(MAIL))  # without letters if this is not a rank of many
        self._rank = lone_ranks(dist.distributed_c10d)
        """The number of the rank that this process is. 0 if the other ranks run too, as under
        torchrun; collectives move nothing then."""

    def note(self, func: Any, args: Sequence[Any]) -> None:
        """Notes what a collective writes."""
        if self._rank != lone_ranks(dist.distributed_c10d):  # this process is another rank now
            self._begin()
        name = func.overloadpacket.__name__
        group = group_of(args)
        if group is None or self._sent(name, group, args):
            return
        rule = RULES.get(name)
        for moved in rule(group, args) if rule else ():
            self._move(name.strip("_").removesuffix("_base"), group, moved)

    def _move(self, name: str, group: Group, moved: Moved) -> None:
        target, source, scale, assumed = moved
        alone = group.size == 1 or not assumed
        absent, why = "do not run, and ", "one rank runs"
        if not self._rank:
            absent, why = "", "nothing moves between processes"
        assumption = f"the other ranks of {name} {absent}were taken to hold what this holds"
        if not target.is_cuda:
            if self._rank and not alone and target.device.type == "cpu":
                self._on_host(assumption)
        elif source is None:
            self._tape.lose(target, f"another rank sends it by {name}, and {why}")
        elif target.numel():
            self._write(target, source, scale)
            if not alone:
                self._tape.assume(target, assumption)

    def _write(self, target: torch.Tensor, source: torch.Tensor, scale: float) -> None:
        tape = self._tape
        if source.data_ptr() != target.data_ptr():
            tape.end(tape.begin(_aten.copy_.default, (target, source), {}), target)
        if scale != 1:
            tape.end(tape.begin(_aten.mul_.Scalar, (target, scale), {}), target)

    def _sent(self, name: str, group: Group, args: Sequence[Any]) -> bool:
        """Posts or takes the whole numbers that one rank sends; returns True if that is all."""
        if name == "broadcast_":
            sender, receiver = int(args[2]), "all"
        elif name == "send":
            sender, receiver = group.rank, str(args[2])
        elif name == "recv_":
            sender, receiver = int(args[2]), str(group.rank)
        else:
            return False
        delivered = [
            self._delivered(f"{group.name} {sender} {receiver}", sender, group, tensor)
            for tensor in args[0]
        ]
        return all(delivered)

    def _delivered(self, between: str, sender: int, group: Group, tensor: torch.Tensor) -> bool:
        """Posts or takes a tensor; returns True if its values are known now."""
        if not is_whole(tensor):
            return sender == group.rank
        if sender == group.rank:
            with suppress(UnknownValue):
                values = self._tape.value_of(tensor) if tensor.is_cuda else tensor
                self._mail.post(between, values)
            return True
        letter = self._mail.take(between, group.members[sender], tensor)
        if letter is None:
            return False
        if tensor.is_cuda:
            self._tape.put(tensor, letter)
        else:
            tensor.copy_(letter)
        return True


def release(out: Any) -> None:
    """Lets a collective of DDP's reducer go, which else holds its bucket for some time.

    The reducer waits for a future and not for the work, so a thread of ``ProcessGroupNCCL``
    lets the bucket go, at a time of its own. It is as early as possible here, as for streams.
    """
    work = out[-1] if isinstance(out, tuple) else out
    if isinstance(work, torch.ScriptObject) and called_by_reducer(sys._getframe(1)):
        dist.Work.unbox(work).wait()


def called_by_reducer(frame: FrameType | None) -> bool:
    """Returns True if C++ code on autograd's thread, or DDP's Python code, called an operator."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(("pytest_attnmem.", "torch._ops")):
            return name.startswith("torch.nn.parallel.")
        frame = frame.f_back
    return True
