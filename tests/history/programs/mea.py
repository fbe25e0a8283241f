"""Attention in chunks over 2048 tokens, forward and backward."""

import torch


def _train(**kw):
    from memory_efficient_attention_pytorch import Attention

    net = Attention(dim=64, dim_head=32, heads=2, memory_efficient=True, q_bucket_size=256,
                    k_bucket_size=512, **kw).to("cuda")  # fmt: skip
    net(torch.randn(1, 2048, 64, device="cuda", requires_grad=True)).sum().backward()


def both_ways():
    _train()


def causal():
    _train(causal=True)


def flash():
    from memory_efficient_attention_pytorch import FlashAttention

    net = FlashAttention(dim=64, dim_head=32, heads=2, q_bucket_size=256, k_bucket_size=512)
    x = torch.randn(1, 2048, 64, device="cuda", requires_grad=True)
    net.to("cuda")(x).sum().backward()
