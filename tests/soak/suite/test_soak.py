"""Tests of all kinds, whose bytes must be the same in every order and in every process."""

import asyncio
import unittest

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

budget = pytest.mark.memory_budget
SIZES = [16, 32, 48, 64, 96, 128]
OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"]


def naive(q, k, v):
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


@budget("2*B*H*N*N*itemsize + B*H*N*d*itemsize + B*H*N*N*itemsize")
@pytest.mark.parametrize("N", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_formula(qkv, N, dtype):
    naive(*qkv(B=2, H=2, N=N, d=16, dtype=dtype))


@budget("4 MiB")
@pytest.mark.parametrize("N", SIZES)
def test_training(qkv, N):
    q, k, v = qkv(B=1, H=2, N=N, d=16, requires_grad=True)
    naive(q, k, v).sum().backward()


@budget("4 MiB", metric="retained")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(attnmem, name):
    model = nn.Linear(48, 32).to(attnmem.device)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(8, 48, device=attnmem.device)).sum().backward()
        optimizer.step()


@budget("8 MiB")
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(attnmem, reentrant):
    layer = nn.Linear(64, 64).to(attnmem.device)
    x = torch.ones(32, 64, device=attnmem.device, requires_grad=True)
    checkpoint(lambda y: layer(y).relu(), x, use_reentrant=reentrant).sum().backward()


@pytest.mark.parametrize("N", SIZES)
def test_regions(attnmem, N):
    for name in ("first", "second"):
        with attnmem.region(name, "1 MiB"):
            torch.ones(N, N, device=attnmem.device).softmax(-1)
    with attnmem.region("kept", metric="retained"):
        kept = torch.ones(N, device=attnmem.device)
    del kept


@pytest.mark.parametrize("N", SIZES)
def test_measured(attnmem, N):
    found = attnmem.measure(lambda: torch.ones(N, 8, device=attnmem.device).relu())
    attnmem.check(found, f"{2 * N * 8 * 4} B", exact=True)


@pytest.mark.parametrize("N", SIZES[:3])
def test_compared(attnmem, N):
    one = torch.ones(N, N, device=attnmem.device)
    attnmem.compare(lambda: one.relu(), lambda: one.relu() * 2, max_ratio=1)


@budget("O(N^2)")
@pytest.mark.parametrize("N", [64, 128])
def test_growth(qkv, N):
    naive(*qkv(B=1, H=1, N=N, d=8))


@budget("1 MiB")
@pytest.mark.parametrize("count", range(1, 7))
def test_lists(attnmem, count):
    [torch.ones(256, device=attnmem.device) for _ in range(count)]


@budget("64 KiB")
@pytest.mark.parametrize("N", SIZES[:4])
def test_losses(attnmem, N):
    logits = torch.zeros(N, 20, device=attnmem.device, requires_grad=True)
    F.cross_entropy(logits, torch.zeros(N, dtype=torch.long, device=attnmem.device)).backward()


@pytest.mark.xfail(strict=True, reason="it is over")
@budget("8 B")
@pytest.mark.parametrize("N", SIZES[:3])
def test_expected_failure(attnmem, N):
    torch.ones(N, device=attnmem.device)


@budget("1 MiB")
@pytest.mark.parametrize("N", SIZES[:3])
class TestClass:
    def test_matrix(self, attnmem, N):
        torch.ones(N, N, device=attnmem.device).cumsum(0)

    def test_vector(self, attnmem, N):
        torch.ones(N, device=attnmem.device).sort()


@budget("1 MiB")
class TestUnittest(unittest.TestCase):
    def test_one(self):
        torch.ones(100, device="cuda" if torch.cuda.is_available() else "cpu")

    def test_two(self):
        torch.ones(200, device="cuda" if torch.cuda.is_available() else "cpu")


@budget("1 MiB")
def test_event_loop(attnmem):
    async def work():
        await asyncio.sleep(0)
        return torch.ones(300, device=attnmem.device)

    asyncio.run(work())


@pytest.fixture
def model(attnmem):
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)).to(attnmem.device)


@budget("1 MiB")
@pytest.mark.parametrize("rows", [4, 8, 12, 16])
def test_model_of_a_fixture(model, attnmem, rows):
    model(torch.ones(rows, 32, device=attnmem.device)).sum().backward()


@budget("1 MiB")
@pytest.mark.parametrize("rows", [4, 8])
def test_autocast(model, attnmem, rows):
    with torch.autocast(attnmem.device.partition(":")[0], dtype=torch.bfloat16):
        model(torch.ones(rows, 32, device=attnmem.device))


@pytest.mark.asyncio
@budget("1 MiB")
async def test_coroutine(attnmem):
    await asyncio.sleep(0)
    torch.ones(400, device=attnmem.device)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
@budget("1 MiB")
async def test_coroutine_of_trio(attnmem):
    torch.ones(500, device=attnmem.device)


@pytest.mark.timeout(300)
@pytest.mark.flaky(reruns=2)
@budget("1 MiB")
def test_of_other_plugins(attnmem):
    torch.ones(600, device=attnmem.device)


@budget("1 MiB")
@settings(max_examples=5, derandomize=True, database=None, deadline=None)
@given(st.integers(1, 64))
def test_properties(rows):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert naive(*torch.zeros(3, 1, 1, rows, 8, device=device)).shape == (1, 1, rows, 8)


@pytest.mark.parametrize("number", range(6))
def test_unmarked(number):
    assert number < 6
