"""Recordings of PyTorch's own CUDA code on the null device (``tests/null/record_attention.py``)."""

import os

from recordings import INSTALLED, read

from pytest_attnmem.backends.simulated.scratch.op_plan import Free, Output, Temporary, Workspace
from pytest_attnmem.backends.simulated.scratch.workspaces import workspaces
from pytest_attnmem.torch_releases import minor_version


def recorded(what, version=INSTALLED):
    """Returns the recorded events or choices by device."""
    return read(f"attention-{what}", version)["devices"]


class Events:
    """Allocations and frees, in the words of the recordings."""

    def __init__(self, profile, version=INSTALLED):
        self.workspaces = workspaces(profile, minor_version(f"{version}.0"), os.environ)
        self.words = []
        self.count = 0

    def allocate(self, nbytes):
        """Returns the number of the allocation; None if nothing is allocated."""
        if nbytes == 0:
            return None
        self.words.append(f"+{nbytes}")
        self.count += 1
        return self.count - 1

    def free(self, number):
        if number is not None:
            self.words.append(f"-{number}")

    def follow(self, plan, sizes):
        """Adds the events of a plan; returns the numbers of its outputs, by index."""
        outputs, alive = {}, {}
        for step in plan:
            if isinstance(step, Output):
                nbytes = sizes[step.index] if step.nbytes is None else step.nbytes
                outputs[step.index] = self.allocate(nbytes)
            elif isinstance(step, Temporary):
                alive[step.name] = self.allocate(step.nbytes)
            elif isinstance(step, Free):
                self.free(alive.pop(step.name))
            elif not self.workspaces.kept:  # else it exists already
                assert isinstance(step, Workspace)
                self.free(self.allocate(self.workspaces.of(step.library)[1]))
        for number in reversed(alive.values()):
            self.free(number)
        return outputs

    def __str__(self):
        return " ".join(self.words)
