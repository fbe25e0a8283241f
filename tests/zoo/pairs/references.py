"""References that outlive their use."""

import torch
from zoo.pair import pair


@pair(
    16,
    "diffusers#3463",
    "the scores keep their name to the end of the function",
    operator="bmm",
    limit="2*N*N*itemsize + N*d*itemsize",
    N=256,
)
def scores_keep_their_name(qkv, N, *, bad):
    q, k, v = qkv(1, 1, N, 16)
    scores = q @ k.mT  # guilty
    scaled = scores * 0.25
    if not bad:
        del scores
    return scaled.softmax(-1) @ v


@pair(
    17,
    "Megatron-LM#3221",
    "a block and its activation refer to each other",
    operator="mul",
    limit="0",
    contract="O(1)",
    metric="retained",
    N=128,
)
def cycle(qkv, N, *, bad):
    x, _, _ = qkv(1, 1, N, 32)
    block = {"activation": x * 2}  # guilty
    if bad:
        block["self"] = block
    return block["activation"].sum()


@pair(
    16,
    "",
    "the losses of all steps are added up with their graphs",
    operator="mul",
    limit="4*N*d*itemsize + 16*S + 64",
    contract="O(S + N)",
    S=8,
    N=128,
)
def losses_with_graphs(qkv, S, N, *, bad):
    x, _, _ = qkv(1, 1, N, 32, requires_grad=True)
    total = 0.0
    for _ in range(S):
        loss = (x * 2).square().sum()  # guilty
        total = total + (loss if bad else loss.detach())
        del loss
    return total.detach()


@pair(
    15,
    "",
    "a recurrence collects the states of all positions for a caller who reads the last",
    operator="add",
    limit="3*d*d*itemsize + 64",
    contract="O(d^2)",
    N=16,
    d=16,
)
def states_collected(qkv, N, d, *, bad):
    _, k, v = qkv(1, 1, N, d)
    states = [k.new_zeros(d, d)]
    for key, value in zip(k[0, 0], v[0, 0], strict=True):
        states.append(states[-1] + torch.outer(key, value))  # guilty
        if not bad:
            del states[:-1]
    return states[-1]


@pair(
    17,
    "",
    "a hook keeps what it saw after the body ended",
    operator="mul",
    limit="0",
    contract="O(1)",
    metric="retained",
    L=8,
    N=64,
)
def hook_keeps_outputs(qkv, keep, L, N, *, bad):
    x, _, _ = qkv(1, 1, N, 32)
    layer = torch.nn.Identity()
    seen = keep if bad else []
    layer.register_forward_hook(lambda module, given, output: seen.append(output))
    for _ in range(L):
        x = layer(x * 0.5)  # guilty
    return x.sum()


@pair(
    17,
    "",
    "an error that was logged keeps the frames it came through",
    operator="mul",
    limit="0",
    contract="O(1)",
    metric="retained",
    N=128,
)
def error_keeps_frames(qkv, keep, N, *, bad):
    x, _, _ = qkv(1, 1, N, 32)

    def attempt():
        wide = x * 2  # guilty
        raise ValueError(wide.ndim)

    try:
        attempt()
    except ValueError as error:
        keep.append(error if bad else str(error))
    return x.sum()
