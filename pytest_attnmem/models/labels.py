"""The notes that a program makes about its tensors: phases, and the tensors it knows by name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..backends.primed_backend import PrimedBackend
from ..measurement.measurement import Measurement
from ..measurement.window_stack import allocation_of


class Label(NamedTuple):
    """The role of a tensor in a model."""

    term: str
    """A column of the table: ``gradients``."""
    module: str
    """The module that owns it: ``model.layers.3.mlp.gate_proj``."""


@dataclass(slots=True)
class Notes:
    """Labels by number of allocation, and the numbers of each phase; of a traced run only."""

    primed: PrimedBackend
    traced: bool = False
    """True in a run that lists tensors; False in one that is only measured."""
    trains: bool = False
    """True if forward passes keep tensors for backward."""
    labels: dict[int, Label] = field(default_factory=dict)
    forward: set[int] = field(default_factory=set)
    """The allocations of the forward passes that outlive their pass."""
    made_in: dict[int, str] = field(default_factory=dict)
    """The phase that made each allocation."""
    stages: dict[str, Measurement] = field(default_factory=dict)
    """The windows of ``build`` and ``run``."""

    def forget(self) -> None:
        """Forgets the notes of a run that starts again."""
        self.labels.clear()
        self.forward.clear()
        self.made_in.clear()
        self.stages.clear()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measures the body, which is ``build`` or ``run``, in a window of its own."""
        window = None
        try:
            with self.primed.window(trace=self.traced) as window:
                yield
        finally:
            if window is not None and window.measurement is not None:
                self.stages[name] = window.measurement

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Notes the allocations of the body, which is a phase: ``build``, ``forward``."""
        if not self.traced:
            yield
            return
        with self.primed.window(trace=True) as window:
            yield
        tensors = window.measurement.tensors if window.measurement is not None else None
        if tensors is not None:
            self.made_in |= {number: name for number, _ in tensors.allocated}
            if name == "forward":
                self.forward |= {*tensors.at_end}

    def label(self, term: str, named: Iterable[tuple[str, Any]]) -> None:
        """Labels tensors, each with the path of its module. Call it after a phase has ended.

        A tensor that has a label keeps it: tied weights count once, where they are found first.
        """
        if not self.traced:
            return
        for module, tensor in named:
            if tensor is None or not hasattr(tensor, "untyped_storage"):
                continue
            number = allocation_of(self.primed.backend, tensor.untyped_storage())
            if number is not None:
                self.labels.setdefault(number, Label(term, module))


def tensors_in(value: Any, depth: int = 6) -> Iterator[Any]:
    """Yields the tensors in a tree of lists, dicts and objects of user's code."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (list, tuple, set)):
        for item in value:
            yield from tensors_in(item, depth - 1)
    elif depth and isinstance(value, dict):
        yield from tensors_in([*value.values()], depth)
    elif depth and hasattr(value, "__dict__") and not isinstance(value, type):
        yield from tensors_in([*vars(value).values()], depth - 1)
