"""References that outlive their use."""

import torch
from zoo.pair import pair


@pair(
    16,
    "diffusers#3463",
    "a name keeps the scores alive to the end of the function",
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
    "the losses of rows are added up over calls with their graphs",
    operator="mul",
    limit="3*N*d*itemsize + 64",
    contract="O(1)",
    B=8,
)
def losses_with_graphs(qkv, B, *, bad):
    x, _, _ = qkv(B, 1, 128, 32, requires_grad=True)
    total = 0.0
    for one in x:
        loss = (one * 2).square().sum(-1)  # guilty
        total = total + (loss if bad else loss.detach())
        del loss
    return total.detach()


@pair(
    15,
    "",
    "a recurrence collects the states of all positions for a caller who reads the last",
    operator="add",
    limit="3*d*d*itemsize + 64",
    contract="O(1)",
    N=16,
)
def states_collected(qkv, N, *, bad):
    _, k, v = qkv(1, 1, N, 16)
    states = [k.new_zeros(16, 16)]
    for key, value in zip(k[0, 0], v[0, 0], strict=True):
        states.append(states[-1] + torch.outer(key, value))  # guilty
        if not bad:
            del states[:-1]
    return states[-1]


@pair(
    17,
    "",
    "a hook keeps the outputs after the body has ended",
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
