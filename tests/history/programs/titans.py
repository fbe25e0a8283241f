"""Neural memories over 256 tokens, and a transformer with one, forward and backward."""

import torch


def memory():
    from titans_pytorch import NeuralMemory

    net = NeuralMemory(dim=64, chunk_size=32).to("cuda")
    net(torch.randn(2, 256, 64, device="cuda"))[0].sum().backward()


def heads():
    from titans_pytorch import NeuralMemory

    net = NeuralMemory(dim=64, chunk_size=32, heads=2, dim_head=32).to("cuda")
    net(torch.randn(2, 256, 64, device="cuda"))[0].sum().backward()


def context():
    from titans_pytorch import MemoryAsContextTransformer

    net = MemoryAsContextTransformer(num_tokens=64, dim=64, depth=2, segment_len=32).to("cuda")
    net(torch.randint(0, 64, (1, 255), device="cuda"), return_loss=True).backward()
