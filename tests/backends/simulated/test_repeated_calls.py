"""A call that is made again without C++ code allocates and computes what it did at first."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.backends.simulated import known_calls, recorded_events
from pytest_attnmem.backends.simulated.repeated_calls import RepeatedCalls


@pytest.fixture(autouse=True)
def unknown(monkeypatch):
    """No call is known from the tests before."""
    monkeypatch.setattr(known_calls, "_DEVICES", known_calls._Devices())


def products(x, y):
    """Each product of the pairs, of views and of transposed operands."""
    return [
        *(x @ y, x.mT @ y, x[1:] @ y[:, 1:], x[0] @ y[0], x[None] @ y),
        *(torch.bmm(x[None], y[None]), F.linear(x, y), F.linear(x[None], y, y[0])),
    ]


def elements(x, y):
    """Elementwise operators and reductions, by several names of their arguments."""
    return [
        *(x * y, x + 2, x - 2.5, torch.add(x, y, alpha=2), x.exp(), torch.maximum(x, y)),
        *(x.sum(), x.sum(-1, keepdim=True), x.amax(dim=0), x.mean((0, 1)), x.clone()),
        *(torch.cat([x, y]), x.max(0), x.sum(dtype=torch.float64), x.reshape(-1), x.mT.reshape(-1)),
    ]


def aliases(x, y):
    """Calls with the same sizes on one storage, on two, and on views of one."""
    both = torch.stack([x, y])
    found = [x * x, x * y, y * y, x @ x, x @ y, x @ x.mT, both[0] * both[1], both[1] * both[0]]
    for a, b in ((x, x), (x, y), (y, x), (both[0], both[1])):
        found += [
            a - b.mT,
            a.mT - b,
            a @ b.mT,
            a.mT @ b,
            a[0] @ b,
            a @ b[0],
            a[None] @ b,
            a @ b[None],
        ]
        found += [F.linear(a, b), F.linear(a, b, b[0]), torch.addcmul(a, b, a), a[0].dot(b[1])]
        found += [
            torch.where(a > 0.5, a, b),
            torch.addmm(a, b, a.mT),
            torch.lerp(a, b, b),
            b.div(a + 1),
        ]
    return found


def settings(x, y):
    """The same calls under settings that change their operators."""
    found = []
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        found += [x.int() / 2, x @ y]
    with torch.autocast("cuda", torch.bfloat16):
        found += [x @ y, x.sum()]
    with torch.inference_mode():
        found += [(x @ y) * 2]
    return [*found, x @ y, torch.vmap(torch.mul)(x, y)]


def gradients(x, y):
    """Calls that record a gradient, between calls that do not."""
    w = torch.ones_like(x).requires_grad_()
    total = x * y
    for _ in range(2):
        with torch.no_grad():
            total = total + w * x
        total = total + (w * x) @ y
    total.sum().backward()
    with forward_ad.dual_level():  # the product of the tangent allocates too
        forward_ad.make_dual(x, y) * x
    return [w.grad, total.detach(), x * y]


class Tiled(torch.autograd.Function):
    """A product by rows, whose backward pass is a loop of the program."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.cat([row[None] @ y for row in x])

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        rows = [torch.einsum("ij,kj->ik", grad[i : i + 1], y) * 2 for i in range(len(x))]
        return torch.cat(rows), sum(x[i : i + 1].mT @ grad[i : i + 1] for i in range(len(x)))


def custom_backward_passes(x, y):
    """Calls in the code of a backward pass, which the engine runs and the program wrote."""
    x, y = (one.clone().requires_grad_() for one in (x, y))
    hooked = x * 2
    hooked.register_hook(lambda grad: (grad + 1) * grad)
    (Tiled.apply(hooked, y).exp() * Tiled.apply(x, y)).sum().backward()
    return [x.grad, y.grad]


def rest(x, y):
    """Calls that change a tensor, return a view that is written, or are random."""
    x, out = x.clone(), torch.empty_like(x)
    x.mul_(y)
    torch.add(x, y, out=out)
    view = x[0]
    view += 1
    x[1] = y[0]
    return [x, out, view, torch.bernoulli(x.clamp(0, 1)), F.dropout(y, 0.5)]


def contractions(x, y):
    """Products by equations, of one operator or with copies of their operands before it."""
    size = len(x)
    cube, other = x.expand([size] * 4).permute(2, 1, 0, 3), y.expand([size] * 4)
    w = x.clone().requires_grad_()
    with torch.no_grad():
        found = [torch.einsum("ij,jk->ik", w, y), torch.einsum("ij,jk", w, w), w @ y, w @ w]
    return [
        *(torch.einsum("ij,jk->ki", x, y), torch.einsum("ij,ij->i", x, y), *found),
        *(torch.einsum("... i d, ... j d -> ... i j", cube.mT, cube[:, :, :, :2].mT),),
        *(torch.einsum("abcd,bdce->aec", cube, other.permute(1, 3, 0, 2)),),
        *(torch.einsum("ij,jk,kl->il", x, y, x), torch.einsum("ij->ji", x)),
        *(torch.einsum("i,j->ij", x[0], y[0]), torch.einsum("ii", x), torch.einsum("ij->", x)),
        *(cube @ other.permute(1, 2, 3, 0)[..., :1], ~(x > 0.5), (x > 0.5) & (y > 0.5)),
        *(torch.softmax(x, -1), x.log_softmax(0)),
    ]


def slices(x, y):
    """The same calls on parts of one tensor, one after the other."""
    found = []
    for i in range(3):
        a, b = x[i : i + 1], y[:, i : i + 1]
        found += [b @ a, a @ y, a * b, b.T + a, torch.einsum("ij,jk->ik", b, a), a.exp(), ~a.int()]
        found += [a[0, :2] - b[:2, 0], torch.cat([a, a]), F.linear(a, x), b.clone(), a.sum()]
    return found


def seen(leaf):
    """Returns what a program can read of a tensor."""
    inference = leaf.is_inference()
    kept = (inference, leaf._is_view(), None if inference else leaf._version)
    return leaf.dtype, leaf.requires_grad, leaf.stride(), kept, leaf.tolist()


def leaves(tree):
    return [leaf for part in tree for leaf in (part if isinstance(part, tuple) else (part,))]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # forward_ad's own
@pytest.mark.parametrize(
    "calls",
    [
        products,
        elements,
        aliases,
        contractions,
        slices,
        settings,
        gradients,
        custom_backward_passes,
        rest,
    ],
)
def test_a_repeated_call_is_the_same_call(monkeypatch, calls):
    def program():
        torch.manual_seed(0)
        found = []
        for size in (4, 4, 3, 4):
            x = torch.linspace(0, 1, size * size, device="cuda").view(size, size)
            found.append(leaves(calls(x, x.flip(0))))
        return [[*map(seen, one)] for one in found]

    repeated = recorded(program)
    monkeypatch.setattr(RepeatedCalls, "_key", lambda *call: (None, ()))
    assert repeated == recorded(program)


def parts(device):
    """Returns views of parts of a tensor, and what is computed of them, with their offsets."""
    x = torch.arange(64.0 * 64, device=device).view(64, 64)
    made = []
    for row in range(0, 64, 8):
        for column in (0, 16, 3):
            part = x[row : row + 8, column : column + 8]
            views = [part, part.T, part[1], part[:, 2:], part.unfold(1, 3, 2), part.diagonal()]
            views += [*part.split(3), *part.unbind(1), part[None], part.squeeze(0), part.detach()]
            views += [part.expand(2, 8, 8), part[1:, None].permute(2, 0, 1), part[2, ::3].view(3)]
            views += [part.as_strided((2, 2), (3, 1)), part.as_strided((2, 2), (3, 1), column)]
            views += [part.view(torch.int32)[0], part[:, :2].view(torch.bfloat16), part.mT.mT]
            made += [*views, part @ part, part + 1, part.cumsum(0), part.to(torch.float64)]
            x[row, column : column + 2] += 1
            part[1:3].mul_(2)
    return [(one.storage_offset(), one.stride(), one.tolist()) for one in made]


def test_parts_of_a_tensor_are_what_they_are_on_the_cpu(run):
    """Calls are known by sizes and alignment, and not by offsets."""
    found = []
    run(lambda: found.append(parts("cuda")))
    assert found == [parts("cpu")]


def recorded(program):
    """Returns the events of a program, the reason to distrust them, and what it returns."""
    results = []
    simulation = open_backend("simulated:A100-80GB").gauge()
    events, problem = recorded_events.recorded(simulation, lambda: results.append(program()))
    return events, problem, results


def test_a_mode_of_the_program_sees_each_call(run):
    def program():
        x = torch.ones(4, 4, device="cuda")
        for _ in range(3):
            x @ x.clone()
        with FlopCounterMode(display=False) as counter:
            x @ x.clone()
        assert counter.get_total_flops() == 2 * 4**3

    run(program)


def test_calls_are_repeated_at_all(monkeypatch):
    def program():
        x, y = torch.ones(4, 4, device="cuda"), torch.ones(4, 4, device="cuda")
        for _ in range(2):
            x @ y, x * y, x.amax(-1, keepdim=True), x.exp(), x - x

    usual = []
    run = RepeatedCalls.run

    def noting(self, func, args, kwargs, otherwise):
        def call(*given):
            usual.append(func.__name__)
            return otherwise(*given)

        return run(self, func, args, kwargs, call)

    simulation = open_backend("simulated:A100-80GB").gauge()
    monkeypatch.setattr(RepeatedCalls, "run", noting)
    recorded_events.recorded(simulation, program)
    assert usual == ["ones", "ones", "matmul", "mul", "amax", "exp", "sub"]


def test_a_call_of_several_operators_frees_their_results_while_it_is_learned(monkeypatch):
    def program():
        x = torch.ones(64, 64, device="cuda")
        F.gelu(torch.nn.functional.scaled_dot_product_attention(x, x, x, torch.zeros_like(x)))
        torch.logsumexp(x, 0), torch.addcdiv(x, x, x).softmax(-1), torch.std(x, 0), x.trace()

    repeated = recorded(program)
    monkeypatch.setattr(RepeatedCalls, "_key", lambda *call: (None, ()))
    assert repeated == recorded(program)


def test_a_negative_zero_is_another_number_than_zero(run):
    def program():
        x = torch.ones(1, device="cuda")
        found = [(1 / (x * zero)).item() for zero in (0.0, 0.0, -0.0)]
        assert found == [torch.inf, torch.inf, -torch.inf]

    run(program)


def test_targets_are_resized_at_each_call(run):
    """Where an overload's name does not say so too: ``topk.values``, ``max.dim_max``."""

    def sizes(function):
        x = torch.rand(4, 6, device="cuda")
        targets = [torch.empty(0, device="cuda"), torch.empty(0, dtype=torch.int64, device="cuda")]
        function(x, 1, out=tuple(targets))
        return [tuple(target.shape) for target in targets]

    found = {}

    def program():
        for function in (torch.topk, torch.sort, torch.max, torch.median, torch.mode):
            found[function.__name__] = [sizes(function) for _ in range(3)]

    run(program)
    one, all_of_them = [[(4,), (4,)]] * 3, [[(4, 6), (4, 6)]] * 3
    assert found == {
        **{"topk": [[(4, 1), (4, 1)]] * 3, "sort": all_of_them},
        **{"max": one, "median": one, "mode": one},
    }
