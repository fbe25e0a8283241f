"""Budgets that say more than is so."""

import torch
from zoo.pair import pair


@pair(
    21,
    "FBGEMM#6125",
    "a test uses all memory that it declares, and its declaration is never lowered",
    operator="empty",
    limit="2*N*d*itemsize",
    contract="O(N)",
    N=256,
)
def declared_once(qkv, N, *, bad):
    x, _, _ = qkv(1, 1, N, 32)
    needed = 4 * N * N if bad else 4 * N * 32
    room = torch.empty(needed, dtype=torch.uint8, device=x.device)  # guilty
    del room
    return x * 2


@pair(
    21,
    "",
    "an improvement that is not written down leaves room for the next regression",
    operator="neg",
    limit="2*N*d*itemsize",
    retained="2*N*d*itemsize",
    exact=True,
    N=256,
)
def improvement_unwritten(qkv, keep, N, *, bad):
    x, _, _ = qkv(1, 1, N, 32)
    keep.append(x.neg())  # guilty
    keep.append(keep[-1] if bad else x.neg())  # guilty
    return keep[-1]
