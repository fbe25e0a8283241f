"""Denoising of 2 images of 32 × 32, forward and backward, really run."""

import torch


def unet():
    from denoising_diffusion_pytorch import Unet

    net = Unet(dim=16, dim_mults=(1, 2, 4))
    net(torch.randn(2, 3, 32, 32), torch.randint(0, 100, (2,))).sum().backward()


def diffusion():
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    net = Unet(dim=16, dim_mults=(1, 2, 4))
    try:
        model = GaussianDiffusion(net, image_size=32, timesteps=100)
    except TypeError:  # older: the size belongs to the call
        model = GaussianDiffusion(net, timesteps=100)
    model(torch.rand(2, 3, 32, 32)).backward()
