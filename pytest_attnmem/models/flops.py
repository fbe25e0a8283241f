"""The floating-point operations of a step, and those that recomputation adds, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StepFlops:
    """The operations of one step of training, of matrix products, convolutions and attention."""

    total: int
    recomputed: int
    """Those of ``total`` that compute again in backward what a checkpoint did not keep."""


class FlopCount:
    """Counts the operations of each operator as ``torch.utils.flop_counter`` counts them."""

    def __init__(self) -> None:
        self._total = 0
        self._again = 0
        self._depth = 0

    def counting(self) -> AbstractContextManager[Any]:
        """Returns the context in which operators are counted."""
        return _mode(self._add)

    def contexts(self) -> tuple[Any, Any]:
        """Returns the contexts of a checkpointed pass and of its recomputation."""
        return nullcontext(), self._recomputing()

    @property
    def flops(self) -> StepFlops:
        """Returns the operations counted until now."""
        return StepFlops(self._total, self._again)

    def _add(self, operations: int) -> None:
        self._total += operations
        self._again += operations if self._depth else 0

    @contextmanager
    def _recomputing(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:  # recomputation stops by an exception, as soon as it has what backward needs
            self._depth -= 1


def _mode(add: Callable[[int], None]) -> AbstractContextManager[Any]:
    """Returns a mode that adds the operations of each operator by the registry's formulas.

    PyTorch's own mode calls operators under the modes of functions too, where a simulation sees
    the inner operators of one that it replaces.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Counting(TorchDispatchMode):
        """Counts each operator that is dispatched."""

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            with torch._C.DisableTorchFunction():
                out = func(*args, **(kwargs or {}))
            formula = flop_registry.get(func._overloadpacket)
            if formula is not None:
                add(int(formula(*args, **(kwargs or {}), out_val=out)))
            return out

    made: AbstractContextManager[Any] = Counting()  # type: ignore[no-untyped-call]
    return made
