"""Generation, token by token."""

import torch
from zoo.pair import pair


@pair(
    16,
    "",
    "the cache of all tokens is copied to append one",
    operator="cat",
    limit="T*d*itemsize + 8*T*itemsize + 1 KiB",
    T=12,
)
def cache_copied_to_append(qkv, T, *, bad):
    tokens, _, _ = qkv(1, 1, T, 256)
    tokens = tokens[0, 0]
    if bad:
        cache = tokens[:1] * 1.0
        for at in range(1, T):
            cache = torch.cat((cache, tokens[at : at + 1]))  # guilty
        return cache
    cache = torch.empty_like(tokens)
    for at in range(T):
        cache[at] = tokens[at]
    return cache


@pair(
    15,
    "",
    "a copy of the cache is kept at every token, though its length is enough",
    operator="clone",
    limit="T*d*itemsize + 1 KiB",
    contract="O(T)",
    T=8,
)
def cache_copied_to_roll_back(qkv, T, *, bad):
    tokens, _, _ = qkv(1, 1, T, 64)
    cache = torch.empty_like(tokens)
    states = []
    for at in range(T):
        cache[:, :, at] = tokens[:, :, at]
        states.append(cache[:, :, : at + 1].clone() if bad else at + 1)  # guilty
    return cache


@pair(
    9,
    "",
    "the scores of all tokens are kept, though only the last are read",
    operator="bmm",
    limit="3*M*itemsize + 1 KiB",
    contract="O(1)",
    N=8,
)
def scores_of_all_tokens(qkv, N, *, bad):
    tokens, head, _ = qkv(1, 1, N, 32, M=256)
    scores = []
    for at in range(N):
        if not bad:
            scores.clear()
        scores.append(tokens[0, :, at : at + 1] @ head[0].mT)  # guilty
    return scores[-1]


@pair(
    8,
    "",
    "the cache holds keys for all query heads, though keys for the key heads are enough",
    operator="clone",
    limit="B*Hkv*M*d*itemsize + 2*H*M*itemsize + 4*H*d*itemsize",
    M=128,
)
def cache_of_query_heads(qkv, M, *, bad):
    q, k, _ = qkv(1, 16, 1, 32, Hkv=2, M=M)
    if bad:
        cache = k[:, :, None].expand(1, 2, 8, M, 32).clone()  # guilty
        return torch.matmul(cache, q.view(1, 2, 8, 32, 1)).view(16, M)  # guilty
    cache = k.clone()
    grouped = q.view(2, 8, 32)
    return torch.bmm(grouped, cache[0].mT).view(16, M)


@pair(
    22,
    "",
    "the cache is made for the longest possible sequence",
    operator="zeros",
    limit="N*d*itemsize + 1 KiB",
    contract="O(1)",
    M=4096,
)
def cache_for_the_longest(qkv, M, *, bad):
    k, _, _ = qkv(1, 1, 64, 32, M=M)
    cache = torch.zeros(M if bad else 64, 32, device=k.device)  # guilty
    cache[:64] = k[0, 0, :64]
    return cache[:64]
