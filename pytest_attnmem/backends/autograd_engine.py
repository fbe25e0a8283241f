"""What autograd's engine does in this thread, by private names that stand in this file alone."""

from __future__ import annotations

from types import CodeType
from typing import Any, Final

import torch
from torch._C._autograd import _get_sequence_nr
from torch.autograd.graph import _engine_run_backward

#: Where PyTorch finds the function that runs each backward pass, as owner and name, and its code.
RUN_BACKWARD: Final[tuple[Any, str]] = (torch.autograd, "_engine_run_backward")
RUNS_BACKWARD: Final[CodeType] = _engine_run_backward.__code__

_running_node = torch._C._current_autograd_node
_running_pass = torch._C._current_graph_task_id


def running_node() -> Any:
    """Returns the node that runs; None outside of a backward pass."""
    return _running_node()


def in_backward() -> bool:
    """Returns True while this thread runs a backward pass."""
    return _running_pass() != -1


def next_number() -> int:
    """Returns the number of the next node that this thread makes."""
    return _get_sequence_nr()
