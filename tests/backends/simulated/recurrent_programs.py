"""Recurrent networks by PyTorch's own cells, recorded in ``tests/data/cuda/<version>``."""

import itertools

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PROGRAMS = {}
KINDS = (nn.LSTM, nn.GRU, nn.RNN)


without_cudnn = torch.backends.cudnn.flags(enabled=False)


def loss(out, state):
    states = state if isinstance(state, tuple) else (state,)
    return out.float().sum() + sum(one.float().sum() for one in states)


@without_cudnn
def ran(kind, *sizes, dtype=None, trains=True, batch=5, **options):
    model = kind(*sizes, device="cuda", dtype=dtype, **options)
    x = torch.ones(7, batch, sizes[0], device="cuda", dtype=dtype)
    with torch.set_grad_enabled(trains):
        found = loss(*model(x))
    if trains:
        found.backward()


@without_cudnn
def packed(kind, both, in_order):
    model = kind(48, 96, 2, bidirectional=both, dropout=0.1, device="cuda")
    x = torch.ones(9, 4, 48, device="cuda", requires_grad=True)
    lengths = [9, 5, 5, 2] if in_order else [2, 9, 5, 5]
    out, state = model(pack_padded_sequence(x, lengths, enforce_sorted=in_order))
    loss(pad_packed_sequence(out, batch_first=True, total_length=11)[0], state).backward()


@without_cudnn
def mixed(kind):
    """Autocast gives a network inputs of half precision and keeps its weights."""
    first = nn.Linear(30, 48, device="cuda")
    model = kind(48, 96, bidirectional=True, batch_first=True, device="cuda")
    with torch.autocast("cuda", torch.float16):
        out, state = model(first(torch.ones(7, 5, 30, device="cuda")))
    loss(out, state).backward()


def cell(kind, bias):
    model, state = kind(48, 96, bias=bias, device="cuda"), None
    for _ in range(3):
        state = model(torch.ones(1000, 48, device="cuda"), state)
    (state[0] if isinstance(state, tuple) else state).sum().backward()


@without_cudnn
def gradient_of_a_gradient(kind):
    x = torch.ones(3, 5, 16, device="cuda", requires_grad=True)
    out = kind(16, 24, device="cuda")(x)[0]
    (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    grad.pow(2).sum().backward()


def add(name, function, *args, **options):
    PROGRAMS[name] = lambda: function(*args, **options)


for kind in KINDS:
    name = kind.__name__
    for both, trains in itertools.product((False, True), (False, True)):
        way = f"{'both ways' if both else 'one way'}, {'step' if trains else 'forward'}"
        options = {"bidirectional": both, "trains": trains}
        add(f"{name}, {way}", ran, kind, 48, 96, 2, batch_first=True, **options)
        if trains:
            for in_order in (False, True):
                order = "in order" if in_order else "not in order"
                add(f"{name}, {way}, packed, {order}", packed, kind, both, in_order)
    add(f"{name} without biases", ran, kind, 48, 96, 3, bias=False, dropout=0.3)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        add(f"{name}, {dtype}", ran, kind, 48, 96, dtype=dtype, batch=512)
    add(f"{name}, large", ran, kind, 256, 512, 2, bidirectional=True, batch=2048)
    add(f"{name}, autocast", mixed, kind)
for both in (False, True):
    add(f"LSTM, projected, {both}", ran, nn.LSTM, 48, 96, 2, proj_size=24, bidirectional=both)
for kind, bias in itertools.product((nn.LSTMCell, nn.GRUCell, nn.RNNCell), (False, True)):
    add(f"{kind.__name__}, {bias}", cell, kind, bias)
for kind in KINDS[:2]:
    add(f"{kind.__name__}, gradient of a gradient", gradient_of_a_gradient, kind)
