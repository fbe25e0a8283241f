"""The allocations and frees of a program on fake tensors, from its plans alone."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pytest_attnmem.backends.simulated.operators.op_rules import plan
from pytest_attnmem.backends.simulated.scratch.op_plan import OpCall, Output
from pytest_attnmem.torch_releases import minor_version

from .recordings import Events

VERSION = minor_version(torch.__version__)

ORDERS = {"aten.native_dropout.default": (1, 0)}  # others allocate in the order of results


def steps(call):
    """Returns the plan of a call, or its outputs if no rule knows it."""
    return plan(call) or [Output(index) for index in ORDERS.get(call.op, range(len(call.outputs)))]


class Tracked(TorchDispatchMode):
    """A mode that records allocations and frees in the order of a device."""

    def __init__(self, profile):
        super().__init__()
        self.profile = profile
        self.events = Events(profile)
        self.seen = {}

    def start_over(self):
        """Drops the events so far; later frees of earlier storages have no number."""
        self.events = Events(self.profile)

    def add_inputs(self, *tensors):
        """Adds tensors that existed before."""
        for tensor in tensors:
            if tensor is not None:
                self._watch(tensor, None)

    def _watch(self, tensor, number):
        storage = tensor.untyped_storage()
        key, events = storage._cdata, self.events

        def freed(_):
            del self.seen[key]
            if number is not None:
                self.events.free(number if events is self.events else "")

        self.seen[key] = weakref.ref(storage, freed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        fresh = [leaf for leaf in leaves if leaf.untyped_storage()._cdata not in self.seen]
        if fresh:
            outputs = tuple(fresh)
            call = OpCall(str(func), args, kwargs or {}, outputs, self.profile, False, VERSION)
            sizes = [leaf.untyped_storage().nbytes() for leaf in fresh]
            outputs = self.events.follow(steps(call), sizes)
            for index, leaf in enumerate(fresh):
                self._watch(leaf, outputs.get(index))
        return result
