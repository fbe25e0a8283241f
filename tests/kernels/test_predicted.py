"""Models of what is called otherwise are what a simulated run finds: of a rank, and of a step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from pytest_attnmem import derive
from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.simulated import Simulated, program_only
from pytest_attnmem.budgets.growth_points import grow
from pytest_attnmem.kernels import decode, ring, standard
from pytest_attnmem.measurement.qkv_inputs import qkv
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.symbols.attention_shape import Source, gather

from .references import BOTH

CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
FEW_AND_MANY = pytest.mark.parametrize("ranks", [1, 8], ids="{} ranks".format, indirect=True)
LONG = 65536


@pytest.fixture(params=[1, 2, 16], ids="{} ranks".format)
def ranks(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many, of which this process is one and nobody the others."""
    size: int = request.param
    dist.init_process_group("fake", store=FakeStore(), rank=size // 2, world_size=size)
    yield size
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def device() -> PrimedBackend:
    """A simulated H100 that counts only the program's tensors: sending has no model."""
    return PrimedBackend(Simulated(find_profile("H100"), program_only), 0)


def part(ranks, training, N, **options):
    """Runs the share of one rank in N positions."""
    inputs = qkv(1, 2, N // ranks, 64, dtype="bfloat16", device="cuda:0", requires_grad=training)
    with torch.set_grad_enabled(training):
        if training:
            return ring.attention(*inputs, **options).sum().backward()
        return ring.attention(*inputs, **options)


def modelled(model, training, N, **options):
    sizes = {"B": 1, "H": 2, "N": N, "d": 64, "dtype": "bfloat16", **options}
    chosen = model.training if training else model.forward
    return chosen.peak(gather([Source("the test", sizes)]))


@BOTH
@CAUSAL
@pytest.mark.parametrize("n", [10, 100])  # below, what ranks tell each other first counts
def test_a_rank_of_any_number(n, training, causal, ranks, device):
    options = {"causal": causal, "block_q": 32, "block_k": 48}
    measured, _ = device.run(lambda: part(ranks, training, n * ranks, **options))
    assert measured.peak_bytes == modelled(ring.MODEL, training, n * ranks, R=ranks, **options)


@BOTH
@FEW_AND_MANY
def test_a_ranks_memory_is_linear_by_contract(training, ranks, device):
    run = partial(part, ranks, training)
    sizes = [ranks * length for length in (128, 256, 384, 512)]
    growth = grow(lambda call: device.run(call)[0], run, {"N": sizes}, "peak")
    growth.assert_within("O(N*d)")
    assert growth.degree("N") == 1


@BOTH
@FEW_AND_MANY
def test_at_65536_a_rank_is_below_a_hundredth_of_standards(training, ranks, device):
    options = {"block_q": 4096, "block_k": 4096}
    measured, _ = device.run(lambda: part(ranks, training, LONG, **options))
    assert measured.peak_bytes == modelled(ring.MODEL, training, LONG, R=ranks, **options)
    assert 100 * measured.peak_bytes < modelled(standard.MODEL, training, LONG)


def static(q, k, v, keys, values):
    """A step that fills a cache of M positions."""
    cache = decode.StaticCache(keys, values, keys.shape[2] - q.shape[2])
    return decode.attention(q, k, v, cache=cache)


def growing(q, k, v, keys, values):
    """A step after M positions."""
    return decode.attention(q, k, v, cache=decode.GrowingCache(keys, values))


@pytest.mark.parametrize("new", [1, 3])
@pytest.mark.parametrize(
    ("step", "model"),
    [(static, decode.STATIC), (growing, decode.GROWING)],
    ids=["static", "growing"],
)
def test_a_steps_model_is_the_derived_form(step, model, new):
    few, many = f"B 2 {new}", f"B 8 {new}"
    form = derive(step, f"{many} d", f"{few} d", f"{few} d", "B 2 M d", "B 2 M d")
    for B, M, d in ((1, 64, 16), (3, 100, 48), (2, 1000, 64)):
        longer = M + (new if step is growing else 0)
        sizes = {"B": B, "H": 8, "Hkv": 2, "N": new, "M": longer, "d": d, "dtype": "float32"}
        expected = model.peak(gather([Source("the test", sizes)]))
        assert form.evaluate(B=B, M=M, d=d) == expected
