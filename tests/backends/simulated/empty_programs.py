"""Programs over tensors without elements, recorded in ``tests/data/cuda/<version>``.

PyTorch answers many calls on such tensors before it selects a kernel. Each program holds a tensor
whose size tells the strides of its result, and one whose size tells its dtype.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

CUDA = {"device": "cuda"}


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, **CUDA)


def places(*shape):
    return torch.zeros(shape, dtype=torch.int64, **CUDA)


#: The shapes of queries, keys and values.
ATTENTION = {
    "no batch": ((0, 2, 4, 8),) * 3,
    "no heads": ((2, 0, 4, 8),) * 3,
    "no tokens": ((2, 2, 0, 8),) * 3,
    "no queries": ((2, 2, 0, 8), (2, 2, 4, 8), (2, 2, 4, 8)),
    "no keys": ((2, 2, 4, 8), (2, 2, 0, 8), (2, 2, 0, 8)),
    "no keys, wider values": ((2, 2, 4, 8), (2, 2, 0, 8), (2, 2, 0, 16)),
    "no head dim": ((2, 2, 4, 0),) * 3,
    "no values": ((2, 2, 4, 8), (2, 2, 4, 8), (2, 2, 4, 0)),
    "three dimensions": ((0, 4, 8),) * 3,
    "two dimensions": ((0, 8),) * 3,
}


def attention(shapes, dtype, trains, **options):
    query, key, value = (ones(*shape, dtype=dtype).requires_grad_(trains) for shape in shapes)
    out = F.scaled_dot_product_attention(query, key, value, **options)
    if trains:
        out.sum().backward()
    return out


def resized(rank, mode, trains, channels_last):
    x = ones(0, 3, *[4] * rank)
    if channels_last and rank > 1:
        x = x.contiguous(memory_format=(torch.channels_last, torch.channels_last_3d)[rank - 2])
    out = F.interpolate(x.requires_grad_(trains), scale_factor=2, mode=mode)
    if trains:
        out.sum().backward()
    return out


def normalized(shape, dtype):
    x, *of_channels = (ones(*size, dtype=dtype) for size in (shape, *[(3,)] * 4))
    return F.batch_norm(x, *of_channels, training=True)


def trained(module, x):
    """Trains a module on a batch; returns the gradient of its first parameter."""
    module = module.to("cuda")
    made = module(x)
    (made[0] if isinstance(made, tuple) else made).sum().backward()
    return next(module.parameters()).grad


CALLS = {
    **{
        f"attention, {name}, {str(dtype)[6:]}{', trained' * trains}": partial(
            attention, shapes, dtype, trains
        )
        for name, shapes in ATTENTION.items()
        for dtype in (torch.float16, torch.float32)
        for trains in (False, True)
    },
    "causal attention": partial(attention, ATTENTION["no batch"], torch.half, True, is_causal=True),
    **{
        f"{mode} of {rank}d{', trained' * trains}{', channels last' * last}": partial(
            resized, rank, mode, trains, last
        )
        for rank, modes in (
            (1, ("nearest", "nearest-exact", "linear", "area")),
            (2, ("nearest", "nearest-exact", "bilinear", "bicubic", "area")),
            (3, ("nearest", "nearest-exact", "trilinear", "area")),
        )
        for mode in modes
        for trains in (False, True)
        for last in ((False,) if rank == 1 else (False, True))
    },
    **{
        f"batch norm of {len(shape)}d, {str(dtype)[6:]}": partial(normalized, shape, dtype)
        for shape in ((0, 3), (0, 3, 4), (0, 3, 4, 4), (2, 3, 0))
        for dtype in (torch.float16, torch.float32, torch.float64)
    },
    "batch norm, trained": lambda: trained(nn.BatchNorm2d(3), ones(0, 3, 4, 4)),
    "layer norm, trained": lambda: trained(nn.LayerNorm(3), ones(0, 3)),
    "group norm, trained": lambda: trained(nn.GroupNorm(2, 4), ones(0, 4, 3)),
    "rms norm, trained": lambda: trained(nn.RMSNorm(3), ones(0, 3)),
    "linear, trained": lambda: trained(nn.Linear(3, 4), ones(0, 3)),
    "embedding, trained": lambda: trained(nn.Embedding(3, 4), places(0)),
    "heads": lambda: nn.MultiheadAttention(8, 2, **CUDA)(*[ones(3, 0, 8)] * 3)[0],
    "heads without weights": lambda: nn.MultiheadAttention(8, 2, **CUDA)(
        *[ones(3, 0, 8)] * 3, need_weights=False
    )[0],
    "encoder layer": lambda: nn.TransformerEncoderLayer(8, 2, batch_first=True, **CUDA).eval()(
        ones(0, 3, 8)
    ),
    "one hot": lambda: F.one_hot(places(0, 2), 5),
    "cross entropy": lambda: F.cross_entropy(ones(0, 5), places(0)),
    "likelihood": lambda: F.nll_loss(ones(0, 5), places(0), reduction="sum"),
    "max pooling": lambda: F.max_pool2d(ones(0, 3, 4, 4), 2),
    "average pooling": lambda: F.avg_pool2d(ones(0, 3, 4, 4), 2),
    "adaptive pooling": lambda: F.adaptive_avg_pool2d(ones(0, 3, 4, 4), 2),
    "unfold": lambda: F.unfold(ones(0, 3, 4, 4), 2),
    "grid": lambda: F.grid_sample(ones(0, 3, 4, 4), ones(0, 2, 2, 2), align_corners=False),
    "pixel shuffle": lambda: F.pixel_shuffle(ones(0, 4, 4, 4), 2),
    "reflection": lambda: F.pad(ones(0, 4, 4, 4), [1] * 4, mode="reflect"),
    "softmax": lambda: ones(0, 3).softmax(-1),
    "topk": lambda: ones(0, 3).topk(2)[0],
    "sort": lambda: ones(0, 3).sort()[0],
    "cumsum": lambda: ones(0, 3).cumsum(0),
    "unique": lambda: ones(0).unique(),
    "nonzero": lambda: ones(0, 3).nonzero(),
    "scatter": lambda: ones(0, 3).scatter_add(0, places(0, 3), ones(0, 3)),
    "norm": lambda: ones(0, 3).norm(),
    "cat": lambda: torch.cat([ones(0), ones(2)]),
    "products of nothing": lambda: torch.bmm(ones(2, 3, 0), ones(2, 0, 5)),
    "product of nothing": lambda: ones(3, 0) @ ones(0, 5),
    "einsum": lambda: torch.einsum("bij,bjk->bik", ones(0, 3, 4), ones(0, 4, 5)),
    "dropout": lambda: F.dropout(ones(0, 3)),
    "mean": lambda: ones(0).mean(),
}


def told(call):
    made = call()
    nbytes = sum((dim + 1) * stride for dim, stride in enumerate(made.stride()))
    return [torch.empty(size, dtype=torch.uint8, **CUDA) for size in (nbytes, made.itemsize << 10)]


PROGRAMS = {name: partial(told, call) for name, call in CALLS.items()}
