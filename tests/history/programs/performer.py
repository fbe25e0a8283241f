"""Performers over 1024 tokens, forward and backward."""

import torch


def _train(**kw):
    from performer_pytorch import Performer

    net = Performer(dim=64, depth=2, heads=2, dim_head=32, **kw).to("cuda")
    net(torch.randn(1, 1024, 64, device="cuda")).sum().backward()


def both_ways():
    _train()


def causal():
    _train(causal=True)


def generalized():
    _train(generalized_attention=True)


def language_model():
    from performer_pytorch import PerformerLM

    net = PerformerLM(num_tokens=256, max_seq_len=1024, dim=64, depth=2, heads=2).to("cuda")
    net(torch.randint(0, 256, (1, 1024), device="cuda")).sum().backward()
