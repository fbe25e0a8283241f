"""A table of the vocabulary, and the rows of the tokens: 4*width*(vocab + tokens) bytes or so."""

import torch

SIZES = {"vocab": 256, "tokens": 32, "width": 16}
HOLDS = ("O(vocab*width + tokens*width)",)
BREAKS = ("O(tokens*width)", "O(vocab + tokens*width)")


def body(device, vocab, tokens, width):
    table = torch.empty(vocab, width, device=device)
    return table[:tokens].clone(), torch.empty(tokens, width, device=device)
