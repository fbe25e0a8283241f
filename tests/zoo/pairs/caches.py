"""Caches that grow with what they should not."""

import torch
from zoo.pair import pair


@pair(
    15,
    "TransformerEngine#2681",
    "each head keeps the converted copy of its weight",
    operator="to_copy",
    limit="2*d*d*8 + 64*d*8 + 64",
    contract="O(1)",
    H=8,
)
def converted_weights_kept(qkv, H, *, bad):
    weights, _, _ = qkv(1, H, 32, 32)
    x = torch.ones(16, 32, device=weights.device, dtype=torch.double)
    converted = {}
    for head, weight in enumerate(weights[0]):
        if not bad:
            converted.clear()
        converted[head] = weight.double()  # guilty
        x = x @ converted[head] / 32
    return x


@pair(
    22,
    "",
    "a table is kept for every length that came up, though the longest table is enough",
    operator="mul",
    limit="3*16*S*d*itemsize + 16*S*8",
    contract="O(S)",
    S=8,
)
def table_for_each_length(qkv, S, *, bad):
    q, _, _ = qkv(1, 1, 16, 32)
    tables = {}
    for length in range(16, 16 * S + 1, 16):
        if not bad:
            tables.clear()
        at = torch.arange(length, device=q.device, dtype=q.dtype)
        tables[length] = at[:, None] * q[0, 0, 0]  # guilty
        del at
    return tables[16 * S]


@pair(
    22,
    "pytorch#120925",
    "each call makes a workspace of its own, though one could be shared",
    operator="empty",
    limit="64 KiB + 3*N*d*itemsize",
    contract="O(1)",
    B=8,
)
def workspace_for_each_call(qkv, B, *, bad):
    x, _, _ = qkv(B, 1, 64, 32)
    workspaces = {}
    for call, one in enumerate(x):
        key = call if bad else "shared"
        if key not in workspaces:
            workspaces[key] = torch.empty(1 << 16, dtype=torch.uint8, device=x.device)  # guilty
        out = one * 0.5
    return out


@pair(
    22,
    "",
    "a cache of masks is never emptied",
    operator="ones",
    limit="0",
    contract="O(1)",
    metric="retained",
    N=64,
)
def masks_kept_for_ever(qkv, keep, N, *, bad):
    q, k, _ = qkv(1, 1, N, 16)
    mask = torch.ones(N, N, dtype=torch.bool, device=q.device)  # guilty
    if bad:
        keep.append(mask)
    return (q @ k.mT).masked_fill(~mask, 0)
