"""Has a queue that cannot take a tensor of the device say so in the program's thread.

A queue of ``multiprocessing`` pickles in a thread of its own. An error there is printed, and who
waits for the tensor waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

from ...values.notes import leaves


def refuse_in_the_program() -> None:
    """Pickles what has tensors of the device before a queue takes it, from now on."""
    kind: Any = Queue
    put = kind.put

    @wraps(put)
    def checked(self: Any, obj: Any, *args: Any, **kwargs: Any) -> None:
        if any(tensor.is_cuda for tensor in _tensors(obj)):
            ForkingPickler.dumps(obj)
        put(self, obj, *args, **kwargs)

    kind.put = checked


def _tensors(obj: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors of nested tuples, lists and dicts, and of modules in them."""
    for leaf in leaves(obj):
        if isinstance(leaf, torch.nn.Module):
            yield from leaf.parameters()
            yield from leaf.buffers()
        elif isinstance(leaf, torch.Tensor):
            yield leaf
