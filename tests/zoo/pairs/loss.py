"""Losses over a vocabulary."""

import torch
from torch.nn.functional import cross_entropy
from zoo.pair import pair


@pair(
    9,
    "vllm#48641",
    "the logits of all positions are computed for the last",
    operator="bmm",
    limit="2*M*itemsize + 1 KiB",
    contract="O(1)",
    N=64,
)
def logits_of_all_positions(qkv, N, *, bad):
    hidden, head, _ = qkv(1, 1, N, 32, M=256)
    if bad:
        return (hidden @ head.mT)[:, :, -1:]  # guilty
    return hidden[:, :, -1:] @ head.mT


@pair(
    9,
    "",
    "tokens become rows as long as the vocabulary",
    operator="eq",
    limit="N*8 + N*d*itemsize",
    contract="O(1)",
    M=256,
)
def one_hot_tokens(qkv, M, *, bad):
    _, table, _ = qkv(1, 1, 64, 32, M=M)
    table = table[0, 0]
    ids = torch.arange(64, device=table.device)
    if bad:
        rows = ids[:, None] == torch.arange(M, device=ids.device)  # guilty
        return rows.to(table.dtype) @ table  # guilty
    return table[ids]


@pair(
    9,
    "trl#1980",
    "logits and labels are shifted by copying the logits",
    operator="clone",
    limit="2*N*M*itemsize + N*8 + 1 KiB",
    N=64,
)
def logits_shifted_by_a_copy(qkv, N, *, bad):
    hidden, head, _ = qkv(1, 1, N, 32, M=256)
    logits = (hidden @ head.mT)[0, 0]
    labels = torch.arange(N, device=logits.device)
    if bad:
        shifted = logits[:-1].clone()  # guilty
        return cross_entropy(shifted, labels[1:], reduction="sum")
    return cross_entropy(logits[:-1], labels[1:], reduction="sum")


@pair(
    9,
    "",
    "a loss takes all logits at once, though a chunk at a time is enough",
    operator="bmm",
    limit="3*16*M*itemsize + 16*N + 1 KiB",
    N=64,
)
def loss_without_chunks(qkv, N, *, bad):
    hidden, head, _ = qkv(1, 1, N, 32, M=128)
    labels = torch.arange(N, device=hidden.device) % 16
    rows = N if bad else 16
    total = torch.zeros((), device=hidden.device)
    for start in range(0, N, rows):
        logits = (hidden[0, :, start : start + rows] @ head[0].mT)[0]  # guilty
        chosen = labels[start : start + rows]
        total += cross_entropy(logits, chosen, reduction="sum")  # guilty
        del logits
    return total
