"""Steps of an optimizer."""

import torch
from zoo.pair import pair


@pair(
    22,
    "",
    "an update makes the temporaries of all parameters at once",
    operator="foreach_mul",
    limit="2*N*d*itemsize + 64",
    contract="O(1)",
    H=8,
)
def updates_of_all_at_once(qkv, H, *, bad):
    weights, grads, _ = qkv(1, H, 64, 32)
    weights, grads = [*weights[0]], [*grads[0]]
    if bad:
        updates = torch._foreach_mul(grads, -0.1)  # guilty
        torch._foreach_add_(weights, updates)
    else:
        for weight, grad in zip(weights, grads, strict=True):
            weight.add_(grad * -0.1)
    return weights[0]


@pair(
    16,
    "",
    "the norms of rows are computed on all gradients, copied into one",
    operator="cat",
    limit="2*8*C*itemsize",
    contract="O(C)",
    C=32,
)
def norm_of_a_copy(qkv, C, *, bad):
    grads, _, _ = qkv(1, 8, C, C)
    grads = [*grads[0]]
    if bad:
        return torch.cat(grads).norm(dim=-1)  # guilty
    return torch.cat([grad.norm(dim=-1) for grad in grads])


@pair(
    15,
    "",
    "the gradients of all micro steps are kept, and summed at the end",
    operator="mul",
    limit="2*N*d*itemsize + 64",
    contract="O(1)",
    B=8,
)
def gradients_kept_to_sum(qkv, B, *, bad):
    x, _, _ = qkv(B, 1, 64, 32)
    grads = []
    for one in x:
        grads.append(one * 0.5)  # guilty
        if not bad and len(grads) > 1:
            grads[0].add_(grads.pop())
    while len(grads) > 1:
        grads[0].add_(grads.pop())
    return grads[0]
