"""Programs with forward-mode gradients, recorded in ``tests/data/cuda/<version>``."""

import torch
import torch.nn.functional as F
from listed_programs import listed, made
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel


def pushed(function, *inputs):
    """Runs ``jvp`` with a tangent of each input."""
    return jvp(function, inputs, tuple(torch.ones_like(x) for x in inputs))


def _perceptron():
    return nn.Sequential(nn.Linear(64, 200), nn.GELU(), nn.Linear(200, 30)).to("cuda")


def attention(q, k, v):
    return ((q @ k.mT) * 0.1).softmax(-1) @ v


def jvp_of_layers():
    pushed(_perceptron(), made(50, 64))
    pushed(nn.LayerNorm(64, device="cuda"), made(50, 64))
    pushed(nn.GroupNorm(4, 64, device="cuda"), made(5, 64, 7))
    pushed(nn.GLU(), made(50, 64))


def jvp_of_weights():
    """The input is constant: PyTorch multiplies a tangent without memory."""
    layer, x = nn.Linear(64, 30, device="cuda"), made(50, 64)
    weights = {name: value.detach() for name, value in layer.named_parameters()}
    tangents = {name: torch.ones_like(value) for name, value in weights.items()}
    jvp(lambda w: functional_call(layer, w, (x,)), (weights,), (tangents,))


def jvp_of_attention():
    q = made(2, 4, 60, 32)
    pushed(attention, q, q, q)
    jvp(lambda q: attention(q, q.detach(), made(2, 4, 60, 32)), (q,), (q,))
    with sdpa_kernel(SDPBackend.MATH):
        pushed(F.scaled_dot_product_attention, q, q, q)


def jvp_of_losses():
    """The result of some has the storage of all losses, and so has its tangent."""
    x, target = made(5000), made(5000)
    for loss in (F.mse_loss, F.smooth_l1_loss, F.soft_margin_loss, F.huber_loss):
        pushed(lambda x, loss=loss: loss(x, target), x)
    labels = torch.zeros(50, dtype=torch.int64, device="cuda")
    pushed(lambda x: F.cross_entropy(x, labels), made(50, 100))


def jvp_with_constants():
    x = made(40, 50)
    for function in (
        *(
            lambda x: x * 2 + 1,
            lambda x: 2 / x - x,
            lambda x: torch.addr(x, x[:, 0], x[0], beta=0.6),
        ),
        *(lambda x: torch.dot(x[0], made(50)), lambda x: (x - made(40, 1)) / made(50)),
        *(lambda x: torch.where(x > 0, x, 0.0), lambda x: x.to(torch.float64).sum()),
    ):
        pushed(function, x)


def tensors_made_in_a_transform():
    """They are on the device of the tensor that the transform wraps."""

    def function(x):
        table = torch.zeros(1000, 3, device=x.device)
        rows = x[torch.tensor([0, 2], device=x.device)]
        return (rows + torch.tensor(2.0, device=x.device) + table.sum()).to("cuda").sum()

    x = made(4, 5)
    pushed(function, x)
    grad(function)(x)


def jacobians():
    jacfwd(lambda x: x.sin() * x)(made(400))
    jacfwd(_perceptron())(made(64))
    jacfwd(lambda x, y: (x @ y).tanh().sum(0), argnums=(0, 1))(made(5, 7), made(7, 6))


def hessians():
    hessian(lambda x: (x.sin() * x).sum())(made(400))
    jacfwd(jacrev(lambda x: x.softmax(-1).log().sum()))(made(60))


def products_with_a_hessian():
    x, model = made(50, 64), _perceptron()
    pushed(grad(lambda x: (x.sin() * x).sum()), x)
    pushed(grad(lambda x: model(x).square().sum()), x)
    pushed(grad(lambda x: x.prod() + attention(x, x, x).sum()), x)


def mapped():
    x = made(50, 64)
    vmap(lambda x, t: jvp(lambda y: y.sin().softmax(-1), (x,), (t,)))(x, x)
    pushed(vmap(lambda x: (x * x).sum().exp()), x)
    vmap(jacfwd(lambda x: x.tanh().cumsum(0)))(x)


class Square(torch.autograd.Function):
    """A function with a formula of its own."""

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * ctx.saved_tensors[0] * tangent


def functions_with_formulas():
    x = made(50, 64)
    pushed(Square.apply, x)
    with forward_ad.dual_level():
        forward_ad.unpack_dual(Square.apply(forward_ad.make_dual(x, made(50, 64))))


def dual_numbers():
    x = made(64, 64)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, made(64, 64))
        for function in (torch.relu, torch.log_softmax, torch.logsumexp, torch.softmax):
            function(dual, *() if function is torch.relu else (-1,))
        attention(dual, dual, x)
        forward_ad.make_dual(x, made(64, 128)[:, ::2])  # the copy has the layout of ``x``
    # Outside of the level, a product allocates no tangent.
    x * x


def dual_numbers_in_place():
    x = made(64, 64)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, made(64, 64))
        y = (dual @ dual).relu()
        y.mul_(2)
        y.add_(dual)
        y[:, 0].exp_()
        plain = made(64, 64)
        plain[3:5] = dual[:2]
        forward_ad.unpack_dual(plain)


def dual_numbers_with_gradients():
    x = made(64, 64).requires_grad_()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, made(64, 64))
        tangent = forward_ad.unpack_dual((dual.exp() * dual).sum()).tangent
        tangent.backward()


PROGRAMS = listed(globals())
