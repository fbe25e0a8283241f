"""Paged decoding gives what attention without a cache gives, at the model's cost."""

import pytest
import torch

from pytest_attnmem import measure
from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.simulated import Simulated, program_only
from pytest_attnmem.kernels import paged
from pytest_attnmem.kernels.reference import standard_attention
from pytest_attnmem.profiles import PROFILES
from pytest_attnmem.symbols.attention_shape import Source, gather

B, H, HKV, D, DV, PAGE = 3, 4, 2, 8, 6, 4


def steps(count, seed=0, dtype=torch.float64, device=None):
    torch.manual_seed(seed)
    for _ in range(count):
        yield tuple(
            torch.randn(B, heads, 1, width, dtype=dtype).to(device)
            for heads, width in ((H, D), (HKV, D), (HKV, DV))
        )


def cache_of(lengths, dtype=torch.float64, device=None):
    """A cache whose sequences have these lengths, of ones."""
    cache = paged.PagedCache(40, PAGE, HKV, D, dv=DV, dtype=dtype, device=device)
    for room in (cache.keys, cache.values):
        room.fill_(1)
    for length in lengths:
        row = cache.admit()
        cache.lengths[row] = length
        cache.tables[row] = [cache.free.pop() for _ in range(-(-length // PAGE))]
    return cache


@pytest.mark.parametrize("count", [1, 4, 5, 11])
def test_each_step_is_attention_to_all_positions_so_far(count):
    cache = cache_of([0] * B)
    past = [*steps(count)]
    for q, k, v in past:
        out = paged.attention(q, k, v, cache=cache)
    keys, values = (torch.cat([step[i] for step in past], 2) for i in (1, 2))
    groups = H // HKV
    expected, _ = standard_attention(
        past[-1][0].numpy(),
        keys.repeat_interleave(groups, 1).numpy(),
        values.repeat_interleave(groups, 1).numpy(),
    )
    torch.testing.assert_close(out, torch.from_numpy(expected))
    assert [len(table) for table in cache.tables] == [-(-count // PAGE)] * B


def test_sequences_differ_in_length_and_give_their_pages_back():
    cache = cache_of([0] * B)
    past = [*steps(9)]
    for q, k, v in past[:6]:
        paged.attention(q, k, v, cache=cache)
    cache.finish(1)
    assert len(cache.free) == 40 - 2 * 2
    cache.admit()
    assert cache.lengths == [6, 6, 0]
    for q, k, v in past[6:]:
        out = paged.attention(q, k, v, cache=cache)
    assert cache.lengths == [9, 9, 3]
    q = past[-1][0][2:]
    keys, values = (torch.cat([step[i][2:] for step in past[6:]], 2) for i in (1, 2))
    wide = (x.repeat_interleave(H // HKV, 1).numpy() for x in (keys, values))
    expected, _ = standard_attention(q.numpy(), *wide)
    torch.testing.assert_close(out[2:], torch.from_numpy(expected))


@pytest.mark.parametrize("backend", ["cpu", "simulated"])
@pytest.mark.parametrize("lengths", [(0, 0, 0), (7, 2, 5), (15, 16, 30)])
def test_the_model_is_the_measured_peak(lengths, backend):
    if backend == "cpu":
        cache = cache_of(lengths, torch.float32)
        inputs = next(steps(1, dtype=torch.float32))
        found = measure(lambda: paged.attention(*inputs, cache=cache), backend="cpu").peak_bytes
    else:
        primed = PrimedBackend(Simulated(PROFILES["H100"], program_only), 0)
        with primed.backend.world():
            cache = cache_of(lengths, torch.float32, "cuda")
            inputs = next(steps(1, dtype=torch.float32, device="cuda"))
        found = primed.run(lambda: paged.attention(*inputs, cache=cache))[0].peak_bytes
    sizes = {"B": B, "H": H, "Hkv": HKV, "d": D, "dv": DV, "N": 1, "page": PAGE}
    known = {**sizes, "M": max(lengths) + 1, "dtype": "float32"}
    assert found == paged.MODEL.peak(gather([Source("the test", known)]))


def test_a_longer_sequence_needs_its_table_alone():
    def at(M):
        sizes = {"B": 8, "H": 32, "Hkv": 8, "d": 128, "dtype": "bfloat16", "M": M}
        return paged.MODEL.peak(gather([Source("the test", sizes)]))

    assert at(2**20) - at(2**19) == 8 * 8 * (2**19 // 16)


def test_errors():
    cache = cache_of([4, 4, 4])
    q, k, v = next(steps(1))
    with pytest.raises(ValueError, match=r"q must have shape \[B, H, 1, d\] = \[3, H, 1, 8\] with"):
        paged.attention(q[:2], k[:2], v[:2], cache=cache)
    with pytest.raises(ValueError, match=r"v must have shape \[3, 2, 1, 6\], got \[3, 2, 1, 8\]"):
        paged.attention(q, k, k, cache=cache)
    cache.free.clear()
    with pytest.raises(ValueError, match="cache must have 3 free pages, got 0 of 40; finish a seq"):
        paged.attention(q, k, v, cache=cache)
