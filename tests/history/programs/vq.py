"""Vector quantizers of 2 × 1024 vectors, forward and backward."""

import torch


def _train(kind, **kw):
    import vector_quantize_pytorch

    net = getattr(vector_quantize_pytorch, kind)(dim=64, **kw).to("cuda")
    x = torch.randn(2, 1024, 64, device="cuda", requires_grad=True)
    net(x)[0].sum().backward()


def vq():
    _train("VectorQuantize", codebook_size=512)


def residual():
    _train("ResidualVQ", codebook_size=512, num_quantizers=4)


def fsq():
    _train("FSQ", levels=[8, 5, 5, 5])


def lfq():
    _train("LFQ", codebook_size=1024)
