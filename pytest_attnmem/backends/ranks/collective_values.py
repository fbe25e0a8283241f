"""Notes on a tape what collectives write, on a device whose collectives move nothing.

Sizes and objects that another rank sends are the true ones if that rank ran before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from ...errors import UnknownValue
from ...values.tape import Tape
from .collective_rules import RULES, Group, Moved, group_of
from .lone_rank import is_lone
from .mail import is_whole, open_mail

_aten = torch.ops.aten


class CollectiveValues:
    """Notes what collectives write; keeps the mail of this rank."""

    def __init__(self, tape: Tape, on_host: Callable[[str], None]) -> None:
        self._tape = tape
        self._on_host = on_host
        """Called with the assumption if a collective writes a tensor of the host."""
        self._mail = open_mail()
        self._alone = is_lone(torch.distributed.distributed_c10d)
        """False if the other ranks run too, as under torchrun; collectives move nothing then."""

    def note(self, func: Any, args: Sequence[Any]) -> None:
        """Notes what a collective writes."""
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
        if not self._alone:
            absent, why = "", "nothing moves between processes"
        assumption = f"the other ranks of {name} {absent}were taken to hold what this holds"
        if not target.is_cuda:
            if self._alone and not alone and target.device.type == "cpu":
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
                values = self._tape.value(tensor) if tensor.is_cuda else tensor
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
