"""Calls of operators that run again, as the cache describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .cached_op import UNKNOWN, CachedOp, NewTensor
from .op_facts import OpFacts

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode

_graph_task = torch._C._current_graph_task_id


class CachedCalls:
    """Runs the cached calls of one fake mode."""

    def __init__(self, mode: SimulatedFakeMode) -> None:
        self._mode = mode

    def run(
        self,
        facts: OpFacts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        cached: CachedOp,
        offsets: tuple[int, ...],
    ) -> Any:
        """Runs an operator whose call is cached; ``offsets`` are those of its tensors."""
        mode, func = self._mode, facts.func
        if facts.view or not mode.is_observed:
            out = mode.op_cache.replay(cached, args, kwargs)
            if mode.heard is None and not mode.observer.traced:
                if mode.is_observed and _graph_task() != -1:
                    mode.autograd_calls.note(out)
                return out  # a view allocates nothing, and no listener counts it
            return mode.ran(func, args, kwargs, out, cached)
        if mode.heard is None and not (mode.observer.traced or mode.avoids(func)):
            new = cached.new_tensor(func, args, kwargs, offsets)
            if new is not None:
                return self._make(new, args)
        known = cached.layouts(offsets)
        noted = mode.values.tape.begin(func, args, kwargs, known)
        out = mode.op_cache.replay(cached, args, kwargs)
        mode.values.end(noted, out)
        if known is UNKNOWN:
            cached.learn_layouts(offsets, noted.inputs, noted.outputs)
        return mode.ran(func, args, kwargs, out, cached)

    def _make(self, new: NewTensor, args: tuple[Any, ...]) -> Any:
        """Makes the new tensor of a call, with one note and one allocation."""
        mode, (note, made, plan) = self._mode, new
        out = mode.op_cache.make(made, ())
        mode.values.tape.repeat(note, [args[place] for place in note.places], out)
        if _graph_task() != -1:
            mode.autograd_calls.note(out)
        mode.observer.after_new(note.func, args, out, made, plan)
        return out
