"""Programs over tensors with a dimension of one element, recorded in ``tests/data/cuda/<version>``.

Such a dimension may have any stride, and CUDA's kernels choose those of the result. Each program
holds a tensor whose size tells the strides of each result, so that a peak tells all of them.
"""

from functools import partial

import torch
import torch.nn.functional as F

#: Shapes and strides, by what they are besides contiguous or not.
LAYOUTS = {
    "one channel, channels last": ((2, 1, 8, 8), (64, 1, 8, 1)),
    "one pixel, channels last": ((2, 3, 1, 1), (3, 1, 3, 3)),
    "another stride of one element": ((2, 1, 8, 8), (64, 7, 8, 1)),
    "one row, channels last": ((2, 3, 1, 8), (24, 1, 24, 3)),
    "one image, channels last": ((1, 3, 4, 4), (48, 1, 12, 3)),
    "one channel of volumes, channels last": ((2, 1, 2, 3, 4), (24, 1, 12, 4, 1)),
    "one row each": ((4, 1, 8), (8, 1, 1)),
    "transposed rows": ((1, 4, 8), (4, 1, 4)),
    "transposed, one column": ((2, 4, 1), (1, 2, 8)),
    "transposed images of one channel": ((2, 1, 4, 4), (16, 16, 1, 4)),
    "every second row": ((2, 1, 8, 8), (128, 64, 8, 1)),
    "channels last": ((2, 4, 6, 8), (192, 1, 32, 4)),
}


def of_images(function):
    return lambda x, y: function(x) if x.dim() == 4 and x.shape[-1] * x.shape[-2] > 1 else x


def gradient(function, of_sum=False):
    """Returns a function that returns the gradient of a result, whose own is expanded or not."""

    def run(x, _):
        made = function(x.requires_grad_())
        given = None if of_sum else torch.ones_like(made)
        return torch.autograd.grad(made.sum() if of_sum else made, x, given)[0]

    return run


def zeros_like(x):
    return torch.zeros_like(x, dtype=torch.int64)


FIRST = partial(torch.zeros, 1, dtype=torch.int64, device="cuda")
UNARY = {
    function.__name__: lambda x, _, function=function: function(x)
    for function in (
        *(torch.relu, torch.exp, torch.neg, torch.isnan, torch.sigmoid, torch.logical_not),
        *(F.gelu, F.silu, F.hardswish, F.hardtanh, F.relu6, F.logsigmoid, F.softsign, F.mish),
        *(F.dropout, F.alpha_dropout, torch.bernoulli, torch.nan_to_num, torch.deg2rad),
        *(torch.randn_like, torch.ones_like, torch.empty_like, torch.clone, torch.rot90),
        *(torch.tril, torch.abs, torch.sinc, torch.frexp, torch.rad2deg),
    )
}
OF_BOTH = {
    function.__name__: function
    for function in (
        *(torch.add, torch.mul, torch.maximum, torch.logaddexp, torch.pow, torch.atan2),
        *(torch.floor_divide, torch.isclose, torch.complex, torch.polar, torch.ldexp),
        *(torch.xlogy, torch.eq, torch.hypot),
    )
}
LOSSES = {
    function.__name__: partial(function, reduction="none")
    for function in (
        *(F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.l1_loss, F.kl_div),
        *(F.binary_cross_entropy, F.binary_cross_entropy_with_logits, F.soft_margin_loss),
    )
}
LISTS = {
    "list_" + name: function
    for name, function in {
        "add": lambda x, y: torch._foreach_add([x, y], 1.0)[0],
        "mul": lambda x, _: torch._foreach_mul([x], [x])[0],
        "addcmul": lambda x, y: torch._foreach_addcmul([x], [x], [y])[0],
        "sqrt": lambda x, _: torch._foreach_sqrt([x])[0],
    }.items()
}
OTHERS = {
    "a_number_times": lambda x, _: 2 * x,
    "one_minus": lambda x, _: 1 - x,
    "to_the_power": lambda x, _: x**2,
    "power_of_two": lambda x, _: 2**x,
    "remainder": lambda x, _: x % 2,
    "half_plus_single": lambda x, y: x.half() + y,
    "clamped": lambda x, _: x.clamp(0, 1),
    "clamped_by_tensors": lambda x, y: x.clamp(y, y),
    "rounded_quotient": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "filled_where": lambda x, y: x.masked_fill(y > 0, 1.0),
    "where_numbers": lambda x, y: torch.where(x > 0, y, 0.5),
    "where_tensors": lambda x, y: torch.where(y > 0, x, y),
    "lerp": lambda x, y: x.lerp(y, 0.5),
    "added_product": lambda x, y: torch.addcmul(x, y, y),
    "row_added": lambda x, y: x + y[..., :1],
    "row_of_all": lambda x, _: x + torch.ones(x.shape[-1], device="cuda"),
    "log_softmax": lambda x, _: x.log_softmax(1),
    "sorted": lambda x, _: x.sort(-1)[0],
    "argsort": lambda x, _: x.argsort(1),
    "mode": lambda x, _: x.mode(0)[0],
    "norm": lambda x, _: x.norm(dim=1, keepdim=True),
    "flipped": lambda x, _: x.flip(0),
    "first_rows": lambda x, _: x[FIRST()],
    "first_columns": lambda x, _: x[:, FIRST()],
    "first_of_both": lambda x, _: x[FIRST(), FIRST()],
    "row_put": lambda x, y: x.index_put((FIRST(),), y[:1]),
    "row_added_in": lambda x, y: x.index_add(0, FIRST(), y[:1]),
    "row_copied": lambda x, y: x.index_copy(0, FIRST(), y[:1]),
    "scattered": lambda x, y: x.scatter(0, zeros_like(y), y),
    "differences": lambda x, _: x.diff(dim=0),
    "renormed": lambda x, _: x.renorm(2, 0, 1.0),
    "unsqueezed": lambda x, _: x.unsqueeze(1).relu(),
    "every_second": lambda x, _: x[..., ::2] * 2,
    "reversed_difference": torch.rsub,
    "normal": lambda x, _: torch.normal(x, 1.0),
    "ldexp_of_integers": lambda x, y: torch.ldexp(x, y.long()),
    "turned": lambda x, _: x.rot90(2),
    "layer_norm": lambda x, _: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x, _: F.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda x, _: F.group_norm(x, 1),
    "prelu": lambda x, _: F.prelu(x, torch.ones(1, device="cuda")),
    "nearest": of_images(partial(F.interpolate, scale_factor=2)),
    "bilinear": of_images(partial(F.interpolate, scale_factor=2, mode="bilinear")),
    "bicubic": of_images(partial(F.interpolate, scale_factor=2, mode="bicubic")),
    "unshuffled_by_two": lambda x, _: F.pixel_unshuffle(x, 2) if x.shape[-2:] == (8, 8) else x,
    "unshuffled": of_images(partial(F.pixel_unshuffle, downscale_factor=1)),
}
INTO_TARGETS = {
    "into_a_target_" + name: lambda x, y, run=run: run(x, y, out=torch.empty(0, device="cuda"))
    for name, run in {
        "add": torch.add,
        "exp": lambda x, _, out: torch.exp(x, out=out),
        "times_a_number": lambda x, _, out: torch.mul(x, 2, out=out),
        "power": lambda x, _, out: torch.pow(2, x, out=out),
        "where": lambda x, y, out: torch.where(x > 0, x, y, out=out),
        "deg2rad": lambda x, _, out: torch.deg2rad(x, out=out),
        "gelu": lambda x, _, out: torch._C._nn.gelu(x, out=out),
    }.items()
}
GRADIENTS = {
    "gradient_of_" + name: function
    for name, function in {
        **{
            function.__name__: gradient(function)
            for function in (
                *(torch.relu, F.gelu, torch.exp, torch.tanh, F.hardswish, F.leaky_relu, F.elu),
                *(F.softplus, F.logsigmoid, F.hardtanh, F.mish, torch.sqrt, F.hardsigmoid),
            )
        },
        "batch_norm": gradient(
            lambda x: F.batch_norm(x, None, None, training=True) if x.shape[1] == 1 else x * 1
        ),
        "dropout": gradient(F.dropout, of_sum=True),
        "norm": gradient(lambda x: x.norm(dim=1), of_sum=True),
        "rms_norm": gradient(lambda x: F.rms_norm(x, x.shape[-1:]), of_sum=True),
        "layer_norm": gradient(lambda x: F.layer_norm(x, x.shape[-1:]), of_sum=True),
        "group_norm": gradient(lambda x: F.group_norm(x, 1), of_sum=True),
        "bce": gradient(lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x))),
        "mse": gradient(lambda x: F.mse_loss(x, torch.zeros_like(x)), of_sum=True),
        "prelu": gradient(lambda x: F.prelu(x, torch.ones(1, device="cuda")), of_sum=True),
        "where": gradient(lambda x: torch.where(x > 0, x, 0.0), of_sum=True),
        "reshape": gradient(lambda x: x.reshape(-1) * 2, of_sum=True),
    }.items()
}


def sized_by_strides(made):
    """Returns a tensor whose size tells the strides of another."""
    made = made[0] if isinstance(made, tuple) else made
    nbytes = sum((dim + 1) * stride for dim, stride in enumerate(made.stride()))
    return torch.empty(nbytes, dtype=torch.uint8, device="cuda")


def over_layouts(function, swapped):
    kept = []
    for shape, strides in LAYOUTS.values():
        x = torch.empty_strided(shape, strides, device="cuda").fill_(0.5)
        y = torch.full(shape, 0.5, device="cuda")
        kept.append(sized_by_strides(function(x, y)))
        if swapped:
            kept.append(sized_by_strides(function(y, x)))


PROGRAMS = {
    name: partial(over_layouts, function, swapped)
    for swapped, functions in (
        (False, {**UNARY, **GRADIENTS}),
        (True, {**OF_BOTH, **LOSSES, **LISTS, **OTHERS, **INTO_TARGETS}),
    )
    for name, function in functions.items()
}
