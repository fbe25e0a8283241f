"""A loss over chunks of rows: 4*chunk*vocab bytes of logits, and 4*tokens of losses."""

import torch

SIZES = {"tokens": 128, "vocab": 512, "chunk": 16}
HOLDS = ("O(chunk*vocab + tokens)",)
BREAKS = ("O(vocab + tokens)",)


def body(device, tokens, vocab, chunk):
    losses = torch.zeros(tokens, device=device)
    for _ in range(0, tokens, chunk):
        torch.empty(chunk, vocab, device=device)
    return losses
