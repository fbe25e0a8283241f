"""Two steps of optimizers of two weights of 256 × 256 and a bias."""

import pytest
import torch

NAMES = "AdamP AdaBelief Adan Lamb Lion MADGRAD SM3 SophiaH"
MORE = " AdaFactor CAME Prodigy"


@pytest.mark.parametrize("name", (NAMES + MORE).split())
def step(name):
    import pytorch_optimizer

    weights = [torch.nn.Parameter(torch.randn(*size, device="cuda"))
               for size in ((256, 256), (256, 256), (256,))]  # fmt: skip
    optimizer = getattr(pytorch_optimizer, name)(weights, lr=1e-3)
    for _ in range(2):
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
