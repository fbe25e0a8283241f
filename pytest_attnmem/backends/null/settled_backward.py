"""Has each backward pass end when autograd's thread has freed its last step.

On a device the program goes on a moment earlier, so the next allocation may find that memory free
or not. The null device is to repeat its numbers: the memory is free.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from ..autograd_thread import Engine


def settle_each_pass() -> None:
    """Waits after each backward pass of this process, from now on."""
    module: Any = torch.autograd
    run, engines = module._engine_run_backward, dict[int, Engine]()

    def settle() -> None:
        device = torch.cuda.current_device()
        module._engine_run_backward = run  # for the pass that waits
        try:
            with temporarily_clear_interpreter_stack():  # of transforms, such as ``grad``
                if device not in engines:
                    engines[device] = Engine(f"cuda:{device}")
                engines[device].settle()
        finally:
            module._engine_run_backward = settled

    @wraps(run)
    def settled(*args: Any, **kwargs: Any) -> Any:
        try:
            return run(*args, **kwargs)
        finally:  # a failed pass too: its last step has tensors
            if torch.cuda.is_initialized() and torch._C._current_graph_task_id() == -1:
                settle()

    module._engine_run_backward = settled
