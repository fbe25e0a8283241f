"""Small models with convolutions, and steps of their training that the null device runs too."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn


class ConvNeXt(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.rise, self.fall = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.down = nn.Conv2d(width, 2 * width, 2, 2)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return self.down(x + self.fall(F.gelu(self.rise(y))).permute(0, 3, 1, 2))


def twice(before, after):
    return nn.Sequential(
        *(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU()),
        *(nn.Conv2d(after, after, 3, padding=1), nn.SiLU()),
    )


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.outer, self.inner = twice(3, width), twice(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.last = nn.Sequential(twice(2 * width, width), nn.Conv2d(width, 1, 1))

    def forward(self, x):
        outer = self.outer(x)
        inner = self.inner(F.max_pool2d(outer, 2))
        return self.last(torch.cat([self.up(inner), outer], 1))


class Audio(nn.Module):
    """Whisper's stem, and the causal depthwise convolution of Mamba."""

    def __init__(self, width=64):
        super().__init__()
        self.first = nn.Conv1d(80, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.causal = nn.Conv1d(width, width, 4, padding=3, groups=width)

    def forward(self, x):
        x = F.gelu(self.second(F.gelu(self.first(x))))
        return F.silu(self.causal(x)[..., : x.shape[-1]]).transpose(1, 2)


def step(make, shape, dtype, last):
    """Runs a model forward and backward, and forward without gradients."""
    model = make().to("cuda", dtype)
    x = torch.empty(shape, device="cuda", dtype=dtype)
    if last:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    model(x).float().square().mean().backward()
    with torch.no_grad():
        model(x)


SHAPES = {ConvNeXt: (2, 3, 64, 64), UNet: (2, 3, 32, 32), Audio: (2, 80, 100)}
MODELS = {
    f"{make.__name__} {str(dtype).removeprefix('torch.')}{' channels last' * last}": partial(
        step, make, shape, dtype, last
    )
    for make, shape in SHAPES.items()
    for dtype in (torch.float32, torch.float16, torch.bfloat16)
    for last in ((False, True) if make is ConvNeXt else (False,))
}
