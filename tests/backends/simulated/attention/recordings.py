"""What ``tests/null/record_attention.py`` saw PyTorch's own CUDA code do on the null device."""

import json
from pathlib import Path

from pytest_attnmem.backends.simulated.op_plan import Free, Output, Temporary, Workspace

DATA = Path(__file__).parents[3] / "data" / "cuda"


def recorded(what):
    """By device."""
    return json.loads((DATA / f"attention-{what}.json").read_text("utf-8"))["devices"]


class Told:
    """Allocations and frees, in the words of the recordings."""

    def __init__(self):
        self.words = []
        self.count = 0

    def allocate(self, nbytes):
        """The number of this allocation; none where nothing is allocated."""
        if nbytes == 0:
            return None
        self.words.append(f"+{nbytes}")
        self.count += 1
        return self.count - 1

    def free(self, number):
        if number is not None:
            self.words.append(f"-{number}")

    def follow(self, plan, sizes):
        """One operator; the numbers of its outputs, whose *sizes* are given, by index."""
        born, alive = {}, {}
        for step in plan:
            if isinstance(step, Output):
                nbytes = sizes[step.index] if step.nbytes is None else step.nbytes
                born[step.index] = self.allocate(nbytes)
            elif isinstance(step, Temporary):
                alive[step.name] = self.allocate(step.nbytes)
            elif isinstance(step, Free):
                self.free(alive.pop(step.name))
            else:
                assert isinstance(step, Workspace)  # which is there already
        for number in reversed(alive.values()):
            self.free(number)
        return born

    def __str__(self):
        return " ".join(self.words)
