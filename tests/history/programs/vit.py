"""Vision transformers over 256 patches, forward and backward."""

import importlib

import torch


def _train(module, name, **kw):
    kind = getattr(importlib.import_module(f"vit_pytorch.{module}"), name)
    net = kind(num_classes=10, dim=64, heads=4, mlp_dim=128, **kw).to("cuda")
    out = net(torch.randn(4, 3, 64, 64, device="cuda"))
    (out[0] if isinstance(out, tuple) else out).sum().backward()


def vit():
    _train("vit", "ViT", image_size=64, patch_size=4, depth=2)


def simple():
    _train("simple_vit", "SimpleViT", image_size=64, patch_size=4, depth=2)


def deepvit():
    _train("deepvit", "DeepViT", image_size=64, patch_size=4, depth=2)


def cait():
    _train("cait", "CaiT", image_size=64, patch_size=4, depth=2, cls_depth=1)


def t2t():
    from vit_pytorch.t2t import T2TViT

    net = T2TViT(dim=64, image_size=64, num_classes=10, depth=2, heads=4, mlp_dim=128,
                 t2t_layers=((3, 2), (3, 2)))  # fmt: skip
    net.to("cuda")(torch.randn(4, 3, 64, 64, device="cuda")).sum().backward()
