"""What a program on fake tensors would allocate and free on a device, by the plans alone."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pytest_attnmem.backends.simulated.op_plan import OpCall, Output
from pytest_attnmem.backends.simulated.op_rules import plan

from .recordings import Told

ORDERS = {"aten.native_dropout.default": (1, 0)}  # all others make theirs as returned


def steps(call):
    """What an operator does; of those that have no rule, what they return."""
    return plan(call) or [Output(index) for index in ORDERS.get(call.op, range(len(call.outputs)))]


class Tracked(TorchDispatchMode):
    """Storages born under it, in the order that a device makes them, and their deaths."""

    def __init__(self, profile):
        super().__init__()
        self.profile = profile
        self.told = Told()
        self.seen = {}

    def start_over(self):
        """Of what was born before, a death has no number from now on."""
        self.told = Told()

    def know(self, *tensors):
        """These were there before."""
        for tensor in tensors:
            if tensor is not None:
                self._watch(tensor, None)

    def _watch(self, tensor, number):
        storage = tensor.untyped_storage()
        key, told = storage._cdata, self.told

        def dead(_):
            del self.seen[key]
            if number is not None:
                self.told.free(number if told is self.told else "")

        self.seen[key] = weakref.ref(storage, dead)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        fresh = [leaf for leaf in leaves if leaf.untyped_storage()._cdata not in self.seen]
        if fresh:
            call = OpCall(str(func), args, kwargs or {}, tuple(fresh), self.profile, False)
            sizes = [leaf.untyped_storage().nbytes() for leaf in fresh]
            born = self.told.follow(steps(call), sizes)
            for index, leaf in enumerate(fresh):
                self._watch(leaf, born.get(index))
        return result
