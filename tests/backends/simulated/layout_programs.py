"""Programs of one operator each, and its backward, recorded in ``tests/data/cuda/<version>``.

The seed of a program chooses the operator, the dtypes, and shapes and layouts that people seldom
write: transposed, expanded, strided, cut out of a larger tensor, empty, or of no dimension.
"""

from functools import partial

import torch
import torch.nn.functional as F
from random_programs import Pick, indices

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
DTYPES = (*FLOATS, torch.int32, torch.int64, torch.uint8, torch.bool)
SIZES = (1, 2, 3, 5, 17, 64, 100, 255, 1024, 4099, 70_000)
MOST_ELEMENTS = 12_000_000


def shape_of(pick, rank):
    shape, left = [], MOST_ELEMENTS
    for _ in range(rank):
        shape.append(0 if pick.chance(0.02) else pick.of([n for n in SIZES if n <= left]))
        left //= max(shape[-1], 1)
    return sorted(shape, key=lambda _: pick.random())


def made(pick, shape, dtype):
    """Returns a tensor of some layout."""
    way, rank = pick.random(), len(shape)
    wide, factory = list(shape), {"dtype": dtype, "device": "cuda"}
    if not rank or way > 0.7:
        return torch.ones(shape, **factory)
    dim, other = (int(pick.random() * rank) for _ in range(2))
    if way < 0.25:
        wide[dim], wide[other] = wide[other], wide[dim]
        return torch.ones(wide, **factory).transpose(dim, other)
    if way < 0.4:
        wide[dim] = 1
        return torch.ones(wide, **factory).expand(shape)
    if way < 0.55:
        wide[dim] *= 2
        return torch.ones(wide, **factory)[(slice(None),) * dim + (slice(None, None, 2),)]
    wide[dim] += 3
    return torch.ones(wide, **factory).narrow(dim, 1, shape[dim])


class Operator:
    """An operator's first tensor, and what makes the others."""

    def __init__(self, pick):
        self.pick = pick
        dtype = pick.of(FLOATS if pick.chance(0.7) else DTYPES)
        self.x = made(pick, shape_of(pick, pick.of((0, 1, 1, 2, 2, 2, 3, 3, 4))), dtype)
        if dtype.is_floating_point:
            self.x.requires_grad_(pick.chance(0.6))

    @property
    def dim(self):
        return int(self.pick.random() * max(self.x.dim(), 1))

    def other(self, dtype=None):
        """Returns a tensor that broadcasts with the first."""
        pick = self.pick
        shape = [1 if pick.chance(0.25) else n for n in self.x.shape]
        return made(pick, shape, dtype or (self.x.dtype if pick.chance(0.5) else pick.of(DTYPES)))

    def places(self):
        shape = [min(n, 100) for n in self.x.shape]
        return made(self.pick, shape, torch.int64).mul(0)

    def run(self):
        pick, x = self.pick, self.x
        kind, names = pick.of(KINDS)
        made_by = kind(self, x, pick, pick.of(names) if names else None)
        if made_by.grad_fn is not None and made_by.is_floating_point():
            made_by.backward(made(pick, made_by.shape, made_by.dtype))


def reduced(_operator, x, pick, name):
    chosen = [dim for dim in range(x.dim()) if pick.chance(0.5)]
    return getattr(torch, name)(x, dim=chosen or None, keepdim=pick.chance(0.4))


def along(operator, x, pick, name):
    out = getattr(torch, name)(x, dim=operator.dim)
    return out if isinstance(out, torch.Tensor) else out[0]


def put(operator, x, pick, name):
    places = operator.places()
    given = made(pick, places.shape, x.dtype)
    if name == "scatter_reduce":
        reduce = pick.of(("sum", "prod", "amax", "mean"))
        return x.scatter_reduce(operator.dim, places, given, reduce)
    return getattr(x, name)(operator.dim, places, given)


def cut(operator, x, pick, name):
    dim = operator.dim
    if name == "select_scatter":
        rest = [n for each, n in enumerate(x.shape) if each != dim]
        return x.select_scatter(made(pick, rest, x.dtype), dim, 0)
    rest = [1 if each == dim else n for each, n in enumerate(x.shape)]
    return x.slice_scatter(made(pick, rest, x.dtype), dim, 0, 1)


def indexed(operator, x, pick, name):
    places = indices(pick.of((1, 7, 100)))
    return x[places] if name == "first" else x[..., places] if name == "last" else x[:, places]


def chosen(operator, x, pick, name):
    mask = operator.other(torch.bool)
    return x.masked_fill(mask, 1) if name == "fill" else torch.where(mask, x, operator.other())


def loss(operator, x, pick, name):
    other = made(pick, x.shape, x.dtype)
    return getattr(F, name)(x, other, reduction=pick.of(("none", "mean", "sum")))


def weighted_loss(_operator, x, pick, _name):
    others = [made(pick, x.shape, x.dtype) for _ in range(3)]
    target, weight, positive = others
    return F.binary_cross_entropy_with_logits(x, target, weight=weight, pos_weight=positive)


def searched(operator, x, pick, name):
    row = made(pick, [pick.of((3, 64))], pick.of(DTYPES[:-1]))
    return torch.searchsorted(row, x) if name == "searchsorted" else torch.bucketize(x, row)


KINDS = (
    *[
        (lambda operator, x, pick, name: getattr(torch, name)(x, operator.other()), names)
        for names in (
            ("add", "sub", "mul", "div", "maximum", "eq", "lt", "atan2", "remainder", "fmod"),
            ("floor_divide", "copysign", "xlogy", "logaddexp", "hypot", "logical_and", "pow"),
        )
    ],
    (
        lambda operator, x, pick, name: getattr(F, name)(x),
        (
            *("gelu", "silu", "elu", "selu", "leaky_relu", "relu6", "hardtanh", "hardswish"),
            *("hardsigmoid", "hardshrink", "softshrink", "softsign", "softplus", "mish"),
            *("logsigmoid", "celu"),
        ),
    ),
    (lambda operator, x, pick, name: F.rrelu(x, training=pick.chance(0.5)), ()),
    (
        lambda operator, x, pick, name: getattr(torch, name)(x),
        (
            *("exp", "sqrt", "abs", "sigmoid", "tanh", "logit", "isinf", "isfinite", "sign"),
            *("max", "min", "argmax", "clone", "nan_to_num", "rand_like", "zeros_like"),
        ),
    ),
    (reduced, ("sum", "mean", "amax", "std", "var", "any", "logsumexp", "nansum")),
    (
        along,
        (
            *("max", "argmax", "cumsum", "cumprod", "cummax", "logcumsumexp", "softmax"),
            *("log_softmax", "prod", "diff", "sort", "argsort", "aminmax"),
        ),
    ),
    (put, ("scatter", "scatter_add", "scatter_reduce")),
    (cut, ("select_scatter", "slice_scatter")),
    (indexed, ("first", "last", "second")),
    (chosen, ("fill", "where")),
    (lambda operator, x, pick, name: x.gather(operator.dim, operator.places()), ()),
    (lambda operator, x, pick, name: x.flip(operator.dim), ()),
    (lambda operator, x, pick, name: torch.cat([x, x], operator.dim), ()),
    (lambda operator, x, pick, name: x.to(pick.of(DTYPES)), ()),
    (loss, ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss")),
    (weighted_loss, ()),
    (searched, ("searchsorted", "bucketize")),
)


def layout(seed):
    Operator(Pick(seed)).run()


#: A loss of logits without elements has no rule.
REFUSED = (59,)
PROGRAMS = {f"layout {seed}": partial(layout, seed) for seed in range(100) if seed not in REFUSED}
