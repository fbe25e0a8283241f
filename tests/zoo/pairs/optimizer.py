"""Steps of an optimizer."""

import torch
from zoo.pair import pair


@pair(
    22,
    "",
    "an update makes the temporaries of all parameters at once",
    operator="foreach_mul",
    limit="2*C*C*itemsize + 64",
    contract="O(C^2)",
    H=8,
    C=32,
)
def updates_of_all_at_once(qkv, H, C, *, bad):
    weights, grads, _ = qkv(1, H, C, C)
    weights, grads = [*weights[0]], [*grads[0]]
    if bad:
        updates = torch._foreach_mul(grads, -0.1)  # guilty
        torch._foreach_add_(weights, updates)
    else:
        for weight, grad in zip(weights, grads, strict=True):
            weight.add_(grad * -0.1)
    return torch.stack(weights[:1])


@pair(
    16,
    "",
    "the norm is that of all gradients, copied into one",
    operator="cat",
    limit="2*C*C*itemsize + 8*L*itemsize",
    contract="O(L + C^2)",
    L=8,
    C=32,
)
def norm_of_a_copy(qkv, L, C, *, bad):
    grads, _, _ = qkv(1, L, C, C)
    grads = [*grads[0]]
    if bad:
        return torch.cat([grad.flatten() for grad in grads]).norm()  # guilty
    return torch.stack([grad.norm() for grad in grads]).norm()


@pair(
    15,
    "",
    "the gradients of all micro steps are kept, and summed in the end",
    operator="mul",
    limit="2*C*C*itemsize + 64",
    contract="O(C^2)",
    B=8,
    C=32,
)
def gradients_kept_to_sum(qkv, B, C, *, bad):
    x, _, _ = qkv(B, 1, C, C)
    grads = []
    for one in x:
        grads.append(one * 0.5)  # guilty
        if not bad and len(grads) > 1:
            grads[0].add_(grads.pop())
    while len(grads) > 1:
        grads[0].add_(grads.pop())
    return grads[0]
