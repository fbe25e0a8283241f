"""Ends what PyTorch leaves behind where this device refuses a call, before the error goes on."""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from functools import wraps
from io import BytesIO
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import _tensor_str

from ...errors import UnknownValue


def leave_streams() -> None:
    """Makes each capture of a CUDA graph that is refused leave its stream, from now on.

    PyTorch makes the stream current before it begins to capture, and an error in between leaves it
    so: later tests would run on it, and find no workspaces there (``torch.cuda.graph.__enter__``).
    """
    graph: Any = torch.cuda.graph
    enter = graph.__enter__

    @wraps(enter)
    def entered(self: Any) -> None:
        before = torch.cuda.current_stream()
        try:
            enter(self)
        except BaseException:
            if torch.cuda.current_stream() != before:
                self.stream_ctx.__exit__(*sys.exc_info())
            raise

    graph.__enter__ = entered


def end_failed_prints() -> None:
    """Makes each print that fails for a value let go of its variables, from now on.

    PyTorch holds a guard of its dispatcher in a variable of the function that prints. The error's
    traceback keeps the variable, and the guard sets the dispatcher back when the garbage is
    collected: in the middle of another operator, which is then noted twice.
    """
    module: Any = _tensor_str
    original = module._str

    @wraps(original)
    def printed(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except UnknownValue as error:
            traceback.clear_frames(error.__traceback__)
            raise

    module._str = printed


def refuse_in_the_program() -> None:
    """Pickles what has tensors of the device before a queue takes it, from now on.

    A queue of ``multiprocessing`` pickles in a thread of its own. An error there is printed, and
    who waits for the tensor waits for ever.
    """
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
