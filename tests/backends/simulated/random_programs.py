"""Programs of random steps, each from a seed, recorded in ``tests/data/cuda/<version>``.

People choose round sizes, contiguous tensors and usual orders; a random program does not. Half
of them are steps of tensor operators, half of them networks with optimizers. All choices depend
on ``Random.random``, which gives the same numbers for a seed on every version of Python.

Batch norm and group norm are missing: cuDNN plans the one, and the other has no rule for tensors
that are not contiguous from torch 2.14 on.
"""

import contextlib
from functools import partial
from random import Random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
#: Larger tensors end the growth of a program.
MOST_ELEMENTS = 40_000_000


class Pick(Random):
    def of(self, choices):
        return choices[int(self.random() * len(choices))]

    def chance(self, share):
        return self.random() < share


class Tensors:
    """A pool of tensors, to which each step adds one."""

    def __init__(self, seed):
        self.pick = Pick(seed)
        self.dtype = self.pick.of(DTYPES)
        self.trains = self.pick.chance(0.6)
        self.parameters = []
        self.batch = self.pick.of((1, 2, 3, 8))

    def made(self, *shape):
        factory = {"device": "cuda", "dtype": self.dtype}
        return torch.ones(shape, **factory).requires_grad_(self.trains)

    def parameter(self, *shape):
        self.parameters.append(self.made(*shape))
        return self.parameters[-1]

    def run(self):
        pick = self.pick
        length, width = pick.of((1, 17, 128, 1000, 1024)), pick.of((8, 24, 64, 65, 256))
        pool = [self.made(self.batch, length, width)]
        for _ in range(3 + int(pick.random() * 12)):
            made = pick.of(STEPS)(self, pick.of(pool), pick)
            if 0 < made.numel() <= MOST_ELEMENTS:
                pool.append(made)
            if len(pool) > 2 and pick.chance(0.3):
                pool.pop(int(pick.random() * (len(pool) - 1)))
        loss = sum(x.float().sum() if pick.chance(0.7) else x.mean() for x in pool[-2:])
        if self.trains and loss.requires_grad:
            loss.backward()
            used = [x for x in self.parameters if x.grad is not None]
            if used and pick.chance(0.5):
                pick.of(OPTIMIZERS)(used, lr=1e-3, foreach=pick.of((None, False))).step()


def indices(*shape):
    return torch.zeros(shape, dtype=torch.long, device="cuda")


def attention(program, x, pick):
    causal = pick.chance(0.5)
    if x.dim() != 3 or x.shape[-1] % 8 or x.shape[-1] > 256:
        return x.relu()
    heads = x.unsqueeze(1)
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=causal).squeeze(1)


def added_product(program, x, pick):
    if x.dim() != 3:
        return x.exp()
    width = x.shape[-1]
    return torch.baddbmm(program.parameter(1, 1, width), x, program.parameter(len(x), width, width))


OPTIMIZERS = (torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad)
STEPS = (
    attention,
    added_product,
    lambda program, x, pick: F.linear(x, program.parameter(pick.of((8, 32, 100)), x.shape[-1])),
    lambda program, x, pick: torch.einsum("...d,ed->...e", x, program.parameter(16, x.shape[-1])),
    lambda program, x, pick: x @ x.transpose(-1, -2),
    lambda program, x, pick: x.bmm(x.transpose(1, 2)) if x.dim() == 3 else x.sigmoid(),
    lambda program, x, pick: F.gelu(x, approximate=pick.of(("none", "tanh"))),
    lambda program, x, pick: F.silu(x) * x,
    lambda program, x, pick: F.softplus(x),
    lambda program, x, pick: F.glu(x, -1) if x.shape[-1] % 2 == 0 else x.tanh(),
    lambda program, x, pick: F.dropout(x, 0.1),
    lambda program, x, pick: F.layer_norm(
        x, x.shape[-1:], program.parameter(x.shape[-1]), program.parameter(x.shape[-1])
    ),
    lambda program, x, pick: F.rms_norm(x, x.shape[-1:], program.parameter(x.shape[-1])),
    lambda program, x, pick: F.normalize(x, dim=-1),
    lambda program, x, pick: x.softmax(pick.of((-1, -2))),
    lambda program, x, pick: x.log_softmax(pick.of((-1, -2))),
    lambda program, x, pick: x.logsumexp(-1, keepdim=True) - x,
    lambda program, x, pick: x.cumsum(pick.of((-1, -2))),
    lambda program, x, pick: x.sum(pick.of((-1, -2)), keepdim=True).expand_as(x),
    lambda program, x, pick: x.float().mean(-1, keepdim=True).to(x.dtype) * x,
    lambda program, x, pick: x.std(-1, keepdim=True) * x,
    lambda program, x, pick: x.var(-2, keepdim=True) + x,
    lambda program, x, pick: x.norm(dim=-1, keepdim=True) + x,
    lambda program, x, pick: x.max(-1, keepdim=True).values * x,
    lambda program, x, pick: x.amax(-1, keepdim=True) + x,
    lambda program, x, pick: x.pow(2).mean() * x,
    lambda program, x, pick: x.sort(-1).values,
    lambda program, x, pick: x.topk(min(5, x.shape[-1]), -1).values,
    lambda program, x, pick: torch.where(x > 0, x, -x),
    lambda program, x, pick: x.masked_fill(x < 0, 0.0),
    lambda program, x, pick: x.transpose(-1, -2),
    lambda program, x, pick: x.transpose(-1, -2).contiguous(),
    lambda program, x, pick: x.chunk(2, -1)[0],
    lambda program, x, pick: x[..., : max(1, x.shape[-1] // 2)].clone(),
    lambda program, x, pick: x.clone().mul_(2),
    lambda program, x, pick: x.to(torch.float32).add(1).to(x.dtype),
    lambda program, x, pick: x.tril(),
    lambda program, x, pick: x.flip(-1),
    lambda program, x, pick: x.roll(3, -1),
    lambda program, x, pick: x.repeat(*[1] * (x.dim() - 1), 2),
    lambda program, x, pick: x.unfold(-1, min(3, x.shape[-1]), 1),
    lambda program, x, pick: F.pad(x, (1, 2, 0, 1)),
    lambda program, x, pick: torch.cat([x, x], pick.of((-1, 0))),
    lambda program, x, pick: torch.stack([x, x * 2]).sum(0),
    lambda program, x, pick: x.index_select(0, indices(2)),
    lambda program, x, pick: x.gather(-1, indices(*x.shape[:-1], 3)),
    lambda program, x, pick: F.embedding(
        indices(program.batch, 7), program.parameter(10, x.shape[-1])
    ),
)


class Network(nn.Module):
    """Layers over ``[batch, length, width]``, some checkpointed, some followed by ReLU."""

    def __init__(self, pick, dtype, width):
        super().__init__()
        factory = {"device": "cuda", "dtype": dtype}
        kinds = [pick.of([*LAYERS]) for _ in range(2 + int(pick.random() * 5))]
        made = (LAYERS[kind](width, pick, **factory) for kind in kinds)
        self.layers = nn.ModuleList(made)
        self.ways = [pick.random() for _ in kinds]

    def forward(self, x):
        for layer, way in zip(self.layers, self.ways, strict=True):
            run = partial(self.one, layer)
            x = checkpoint(run, x, use_reentrant=False) if way < 0.25 else run(x)
            if way > 0.8:
                x = F.relu(x, inplace=way > 0.9) + x
        return x

    def one(self, layer, x):
        if isinstance(layer, nn.MultiheadAttention):
            return layer(x, x, x, need_weights=layer.with_weights)[0]
        if isinstance(layer, nn.EmbeddingBag):
            return x + layer(indices(len(x), 5)).unsqueeze(1)
        if isinstance(layer, (nn.InstanceNorm1d, nn.PReLU)):
            return layer(x.transpose(1, 2)).transpose(1, 2)
        return layer(x)


def attending(width, pick, **factory):
    layer = nn.MultiheadAttention(width, 4, batch_first=True, **factory)
    layer.with_weights = pick.chance(0.3)
    return layer


def encoding(width, pick, **factory):
    options = {"batch_first": True, "norm_first": pick.chance(0.5)}
    return nn.TransformerEncoderLayer(width, 4, 2 * width, **options, **factory)


LAYERS = {
    "linear": lambda width, pick, **factory: nn.Linear(
        width, width, bias=pick.chance(0.5), **factory
    ),
    "layer norm": lambda width, pick, **factory: nn.LayerNorm(width, **factory),
    "RMS norm": lambda width, pick, **factory: nn.RMSNorm(width, **factory),
    "instance norm": lambda width, pick, **factory: nn.InstanceNorm1d(width, **factory),
    "attention": attending,
    "encoder": encoding,
    "embedding bag": lambda width, pick, **factory: nn.EmbeddingBag(20, width, **factory),
    "dropout": lambda width, pick, **factory: nn.Dropout(0.2),
    "PReLU": lambda width, pick, **factory: nn.PReLU(width, **factory),
}
TRAINERS = (
    partial(torch.optim.AdamW, fused=True),
    torch.optim.Adam,
    partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    torch.optim.NAdam,
    torch.optim.Adadelta,
)
LOSSES = (
    lambda y: F.cross_entropy(y.flatten(0, 1), indices(y.shape[0] * y.shape[1])),
    lambda y: F.mse_loss(y, torch.zeros_like(y)),
    lambda y: F.l1_loss(y.float(), torch.zeros_like(y, dtype=torch.float32)),
    lambda y: F.smooth_l1_loss(y, torch.ones_like(y)),
    lambda y: F.kl_div(y.log_softmax(-1), y.detach().softmax(-1), reduction="batchmean"),
    lambda y: F.binary_cross_entropy_with_logits(y, torch.ones_like(y)),
    lambda y: (y[:, torch.arange(0, y.shape[1], 2, device=y.device)] ** 2).mean(),
    lambda y: torch.zeros_like(y).scatter_add(1, indices(*y.shape), y).sum(),
)


def tensors(seed):
    Tensors(seed).run()


def network(seed):
    pick = Pick(seed)
    mixed = pick.chance(0.35)
    dtype = torch.float32 if mixed else pick.of(DTYPES)
    batch, length, width = pick.of((1, 2, 4)), pick.of((8, 33, 128, 512)), pick.of((16, 64, 96))
    net = Network(pick, dtype, width).train(pick.chance(0.75))
    x = torch.ones(batch, length, width, device="cuda", dtype=dtype)
    x.requires_grad_(pick.chance(0.5))
    trains, parameters, loss_of = pick.chance(0.75), [*net.parameters()], pick.of(LOSSES)
    optimizer = pick.of(TRAINERS)(parameters) if parameters and trains else None
    half = torch.autocast("cuda", pick.of(DTYPES[1:])) if mixed else contextlib.nullcontext()
    for _ in range(1 + pick.chance(0.5)):
        with torch.set_grad_enabled(trains), half:
            loss = loss_of(net(x))
        if loss.requires_grad:
            loss.backward()
        if optimizer:
            if pick.chance(0.5):
                nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=pick.chance(0.7))


PROGRAMS = {
    f"{kind} {seed}": partial(run, seed)
    for kind, run in (("tensors", tensors), ("network", network))
    for seed in range(40)
}
