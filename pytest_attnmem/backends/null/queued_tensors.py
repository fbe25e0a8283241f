"""Has a queue that cannot take a tensor of the device say so in the program's thread.

A queue of ``multiprocessing`` pickles in a thread of its own. An error there is printed, and who
waits for the tensor waits for ever.
"""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from io import BytesIO
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch


def refuse_in_the_program() -> None:
    """Pickles what has tensors of the device before a queue takes it, from now on."""
    kind: Any = Queue
    put, only_prints = kind.put, kind._on_queue_feeder_error

    @wraps(put)
    def checked(self: Any, obj: Any, *args: Any, **kwargs: Any) -> None:
        # The queue of an executor hands the error on, and its ``put`` must raise none.
        if self._on_queue_feeder_error is only_prints and _is_on_device(obj):
            ForkingPickler.dumps(obj)
        put(self, obj, *args, **kwargs)

    kind.put = checked


def _is_on_device(obj: Any) -> bool:
    """Returns True if pickling the object would pickle a tensor of the device."""
    finder = _Finder()
    with suppress(Exception):  # the queue's thread tells what cannot be pickled
        finder.dump(obj)
    return finder.found


class _Finder(ForkingPickler):
    """Pickles everything but tensors, which it looks at."""

    def __init__(self) -> None:
        super().__init__(BytesIO())
        self.found = False

    def reducer_override(self, obj: Any) -> Any:
        """Notes where a tensor is, and pickles a number in its place."""
        if not isinstance(obj, (torch.Tensor, torch.UntypedStorage)):
            return NotImplemented
        self.found = self.found or obj.is_cuda
        return int, ()
