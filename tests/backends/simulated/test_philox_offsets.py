"""How far operators move the generator on: the numbers of the null device, torch 2.13 to 2.15."""

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

COUNT = 3_000_001
aten = torch.ops.aten


def made(count=COUNT, dtype=torch.float32):
    return torch.empty(count, device="cuda", dtype=dtype)


def attention(backend, p):
    q = torch.empty(1, 3, 65, 64, device="cuda", dtype=torch.float16)
    with sdpa_kernel(backend):
        F.scaled_dot_product_attention(q, q[:, :, :33], q[:, :, :33], dropout_p=p)


def trained_attention(backend):
    q = torch.empty(1, 3, 64, 64, device="cuda", requires_grad=True)
    with sdpa_kernel(backend):
        F.scaled_dot_product_attention(q, q, q).sum().backward()


FLASH, EFFICIENT = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
#: What each call draws on an A100 and on an RTX 4090.
CALLS = {
    "no elements": (lambda: torch.randn(0, device="cuda"), 0, 0),
    "floats": (lambda: torch.randn(COUNT, device="cuda"), 16, 16),
    "doubles": (lambda: torch.rand(COUNT, device="cuda", dtype=torch.float64), 28, 32),
    "complex": (lambda: made(dtype=torch.complex64).normal_(), 28, 32),
    "probabilities": (lambda: torch.bernoulli(torch.full((COUNT,), 0.5, device="cuda")), 12, 12),
    "a narrow range": (lambda: torch.randint(2**28 - 1, (COUNT,), device="cuda"), 16, 16),
    "a wide range": (lambda: torch.randint(2**28, (COUNT,), device="cuda"), 28, 32),
    "from a number": (lambda: torch.randint(-(2**31), 2**31, (COUNT,), device="cuda"), 28, 32),
    "all of int64": (lambda: made(dtype=torch.int64).random_(), 28, 32),
    "all of int32": (lambda: made(dtype=torch.int32).random_(), 16, 16),
    "to a number": (lambda: made(dtype=torch.int64).random_(7), 16, 16),
    "gamma": (lambda: torch._standard_gamma(torch.ones(5, device="cuda")), 12, 12),
    "poisson": (lambda: torch.poisson(torch.ones(5, device="cuda")), 20, 20),
    "an order": (lambda: torch.randperm(COUNT, device="cuda"), 3_000_032, 3_000_036),
    "a short order": (lambda: torch.randperm(5, device="cuda"), 12, 12),
    "dropout": (lambda: F.dropout(made(dtype=torch.float64), 0.3), 16, 16),
    "dropout of all": (lambda: aten.native_dropout(made(9), 1.0, True), 0, 0),
    "no dropout": (lambda: aten.native_dropout(made(9), 0.3, False), 0, 0),
    "flash attention": (lambda: attention(FLASH, 0.3), 96, 96),
    "flash attention without dropout": (lambda: attention(FLASH, 0.0), 0, 0),
    "efficient attention": (lambda: attention(EFFICIENT, 0.3), 6436, 6436),
    "efficient attention without dropout": (lambda: attention(EFFICIENT, 0.0), 0, 0),
    "its backward pass": (lambda: trained_attention(EFFICIENT), 0, 0),
}


@pytest.mark.parametrize(("call", "a100", "rtx"), CALLS.values(), ids=CALLS)
def test_an_operator_moves_the_generator_on_as_cudas_kernel_does(run, call, a100, rtx):
    found = []

    def program():
        torch.cuda.manual_seed(3)
        call()
        found.append(torch.cuda.default_generators[0].get_offset())

    run(program)
    run(program, "RTX 4090")
    assert found == [a100, rtx]
