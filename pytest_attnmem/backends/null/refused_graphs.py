"""Leaves the stream of a CUDA graph that cannot be captured.

PyTorch makes the stream current before it begins to capture, and an error in between leaves it so:
later tests would run on it, and find no workspaces there (``torch.cuda.graph.__enter__``).
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

import torch


def leave_streams() -> None:
    """Makes each capture that is refused leave its stream, from now on."""
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
