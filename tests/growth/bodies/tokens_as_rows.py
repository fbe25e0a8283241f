"""Tokens become rows as long as the vocabulary, of 8 bytes: 8*tokens*vocab bytes."""

import torch

SIZES = {"tokens": 32, "vocab": 128}
HOLDS = ("O(tokens*vocab)",)
BREAKS = ("O(tokens + vocab)",)


def body(device, tokens, vocab):
    ids = torch.zeros(tokens, dtype=torch.long, device=device)
    return torch.zeros(tokens, vocab, dtype=torch.long, device=device).scatter_(1, ids[:, None], 1)
