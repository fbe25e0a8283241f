"""Transforms of ``torch.func``, by name: each makes a function of a tensor of another."""

import torch

TRANSFORMS = {
    "grad": torch.func.grad,
    "vmap": torch.vmap,
    "jvp": lambda function: lambda x: torch.func.jvp(function, (x,), (x,)),
    "grads of a batch": lambda function: torch.vmap(torch.func.grad(function)),
}
