"""Operators that run on ``meta`` at once give what the fake mode of PyTorch gives."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.backends.simulated.direct_ops import DirectOps
from pytest_attnmem.backends.simulated.fake_mode import SimulatedFakeMode


def step(device):
    """A step that trains a small model of a language."""
    tokens = torch.zeros(2, 16, dtype=torch.long, device=device)
    embedding = nn.Embedding(50, 32, device=device)
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, device=device)
    optimizer = torch.optim.AdamW([*embedding.parameters(), *layer.parameters()], foreach=True)
    out = layer(embedding(tokens)) @ embedding.weight.T
    F.cross_entropy(out.flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()


def mixed(device):
    """Views, mixed dtypes, host scalars, and tensors in lists."""
    x = torch.randn(4, 6, device=device, generator=torch.Generator(device))
    y = torch.arange(6, device=device)[None].expand(4, 6).t()
    parts = torch.cat([x.half().t(), y], 1).split(2, 1)
    host = torch.tensor(2.0) * 3
    z = torch.stack(parts).permute(2, 0, 1).select(0, 1)[:, 1:]
    w = (x.double() * host).add_(1).logsumexp(-1).to("cpu", torch.float32)
    z.clone().copy_(z).view(-1)[::2].zero_()
    x.masked_fill(x > 0, float("-inf")).softmax(-1, torch.float32).std()
    torch.linspace(0, 1, 5, device=device).outer(w.to(device))[None].squeeze(0)
    assert host.item() == 6


def lists(device):
    """Operators that work in place on lists of tensors, alike and not."""
    x = [torch.ones(3, device=device), torch.ones(2, 2, device=device)]
    y = [tensor.half() for tensor in x]
    for other in (x, y, 2, 2.5, [3.0, 4.0]):
        torch._foreach_mul_(x, other)
    torch._foreach_addcdiv_(x, x, x, [0.5, 0.5])
    torch._foreach_lerp_(y, y, 0.5)
    torch._foreach_zero_([tensor.int() for tensor in y])
    with pytest.raises(RuntimeError):
        torch._foreach_add_(x, x[::-1])
    torch._foreach_neg_(torch._foreach_exp(y))


def described(found, args):
    """Returns the facts of each output, and the arguments whose storage it shares."""
    if isinstance(found, (tuple, list)):
        return [described(one, args) for one in found]
    if not isinstance(found, torch.Tensor):
        return found
    storage = found.untyped_storage()
    return (
        *(found.shape, found.stride(), found.storage_offset(), found.dtype, storage.nbytes()),
        [
            position
            for position, arg in enumerate(args)
            if isinstance(arg, torch.Tensor) and arg.untyped_storage()._cdata == storage._cdata
        ],
        found._fake_device.type,
        found.constant is None,
    )


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("program", [step, mixed, lists])
def test_a_direct_operator_gives_what_the_fake_mode_gives(monkeypatch, program, device):
    direct, compared = DirectOps.run, set()

    def run(self, func, args, kwargs):
        made = direct(self, func, args, kwargs)
        mode = self._fake_mode
        if made is not NotImplemented and func not in mode.lift_fns:
            compared.add(func)
            expected = mode._run_in_general(func, (), args, {**kwargs})
            assert described(made, args) == described(expected, args), func
        return made

    monkeypatch.setattr(DirectOps, "run", run)
    backend = open_backend("simulated:T4", {"simulated": fresh})
    with backend.world():
        program(device)
    assert len(compared) > 6


def fresh(argument):
    """Opens a simulation that knows no calls."""
    from pytest_attnmem.backends.simulated import open_backend

    return open_backend(argument)


def test_a_layer_norm_runs_in_general_once(monkeypatch):
    ran = []
    general = SimulatedFakeMode._run_in_general

    def run(self, func, *call):
        ran.append(func)
        return general(self, func, *call)

    backend = open_backend("simulated:T4", {"simulated": fresh})
    monkeypatch.setattr(SimulatedFakeMode, "_run_in_general", run)
    with backend.world():
        layer = nn.LayerNorm(8, device="cuda")
        layer(layer(torch.ones(4, 8, device="cuda")))
    assert ran.count(torch.ops.aten.native_layer_norm.default) <= 1
