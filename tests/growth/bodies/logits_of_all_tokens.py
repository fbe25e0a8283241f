"""The logits of all tokens: 4*tokens*vocab bytes."""

import torch

SIZES = {"tokens": 64, "vocab": 256}
HOLDS = ("O(tokens*vocab)",)
BREAKS = ("O(tokens + vocab)", "O(vocab)")


def body(device, tokens, vocab):
    return torch.empty(tokens, vocab, device=device)
