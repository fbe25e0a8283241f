"""The programs of a module by name, which the null device runs too, and their tensors."""

from inspect import isfunction, signature

import torch


def listed(module):
    """Returns the module's own functions that take nothing, by name; a helper's begins with _."""
    return {
        name: value
        for name, value in module.items()
        if isfunction(value)
        and value.__module__ == module["__name__"]
        and not (name.startswith("_") or signature(value).parameters)
    }


def made(*shape, dtype=torch.float32, grad=False):
    return torch.ones(shape, dtype=dtype, device="cuda", requires_grad=grad)
