"""State-space models over 256 tokens, forward and backward."""

import torch


def _package():
    try:
        import mambapy.mamba as package
    except ModuleNotFoundError:
        import mamba as package
    return package


def _train(**kw):
    package = _package()
    net = package.Mamba(package.MambaConfig(d_model=64, n_layers=2, **kw)).to("cuda")
    net(torch.randn(2, 256, 64, device="cuda")).sum().backward()


def parallel():
    _train()


def sequential():
    _train(pscan=False)


def step():
    package = _package()
    net = package.Mamba(package.MambaConfig(d_model=64, n_layers=2)).to("cuda")
    with torch.no_grad():
        net(torch.randn(2, 256, 64, device="cuda"))
