"""Memory that is not simulated at its length: from shorter ones to the byte, or by the model."""

import pytest

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.sweep.extrapolation import (
    SHORT,
    allocations,
    memory_by_growth,
    memory_by_model,
)
from pytest_attnmem.sweep.memory import CaseMemory, observe


def test_growth_is_exact_with_a_rest_of_a_block_too(case, gtx_1080):
    def short(at):
        assert at.N < 1000
        return observe(at, gtx_1080)

    long = case("flash", 1061, B=2)
    grown, seen = memory_by_growth(long, short), observe(long, gtx_1080)
    assert (grown.before_bytes, grown.peak_bytes) == (seen.before_bytes, seen.peak_bytes)


def test_padding_to_blocks_is_told_by_lengths_with_the_same_rest(case):
    def padded(at):
        return CaseMemory(None, -(-at.N // 128) * 128, 0)

    assert memory_by_growth(case("textbook", 4097), padded).peak_bytes == 33 * 128


def refused(case, observe=lambda at: pytest.fail("nothing is to be run")):
    """The error of a case, after its name."""
    with pytest.raises(BudgetError) as caught:
        memory_by_growth(case, observe)
    name, _, why = str(caught.value).partition(": too long to simulate, and ")
    assert name == str(case)
    return why


def test_what_shorter_lengths_do_not_determine_is_an_error(case, monkeypatch):
    why = refused(case("textbook", 4096), lambda at: CaseMemory(1, 2**at.N, 0))
    assert why == "its memory is not a polynomial in N"
    # Chunks are 128 long up to N = 16,384, and √N beyond.
    chunked = case("chunked", 1 << 20, B=1, backward=False, causal=False)
    assert refused(chunked) == "it grows unlike shorter lengths"
    flash = case("flash", 4096)
    monkeypatch.setattr(
        type(flash.attention.model.training),
        "high_water",
        lambda model, shape, kinds: str(shape.symbols["N"] > 4000),
    )
    assert refused(flash) == "shorter lengths peak elsewhere"


def test_a_kernel_that_is_slow_at_short_lengths_is_refused(case):
    def slow(at):
        assert at.N == 512
        return CaseMemory(None, 1, 1501)

    with pytest.raises(BudgetError) as caught:
        allocations(case("linear-recurrent", 10**9), slow)
    assert str(caught.value) == (
        "linear-recurrent causal N=1000000000 d=16: too long to simulate, for N=512 makes 1,501"
        " allocations already; sweep it up to N=1024, or use attnmem predict, which has the"
        " kernel's model"
    )
    assert allocations(case("linear-recurrent", 1024), slow) == 0


def test_what_shorter_lengths_do_not_tell_is_not_told(case):
    nothing = CaseMemory(None, None, 0, unmeasured="no model")
    seen = memory_by_growth(case("textbook", 4096), lambda at: nothing)
    assert (seen.before_bytes, seen.peak_bytes, seen.unmeasured) == (None, None, "no model")


def test_allocations_grow_as_between_two_short_lengths(case):
    long = case("textbook", 16384)
    assert allocations(long.at(SHORT), lambda at: pytest.fail("too short")) == 0
    assert allocations(long, lambda at: CaseMemory(0, 0, at.N**2 // 128**2)) == 128**2
    assert allocations(long, lambda at: CaseMemory(0, 0, 69)) == 69


@pytest.mark.parametrize("causal", [False, True])
def test_one_rank_of_a_ring(case, causal):
    kinds = ("sm61", "cuda")
    B, N, d, R = 8, 4096, 64, 4
    seen = memory_by_model(case(f"ring:{R}", N, d, causal=causal), kinds)
    tensor, rows = B * (N // R) * d * 4, B * (N // R) * 4
    # what the benchmark holds around it, out and its gradient, and the exponentials' sums
    assert seen.before_bytes == 14 * tensor + rows
    # k and v of two other ranks, dq, dk, dv and those of two on their way, delta; and tiles
    tiles = 2 * B * 128**2 * 4 + B * 128 * d * 4 + causal * 128**2
    assert seen.peak_bytes == 14 * tensor + rows + (4 + 3 + 2) * tensor + rows + tiles
    forward = memory_by_model(case(f"ring:{R}", N, d, causal=causal, backward=False), kinds)
    tile = B * 128**2 * 4 + causal * 128**2
    online = (1 + 4) * tensor + 2 * rows + 2 * B * 128 * 4 + tile
    assert (forward.before_bytes, forward.peak_bytes) == (None, 3 * tensor + online)


def test_ranks_share_evenly_or_not_at_all(case):
    with pytest.raises(BudgetError) as caught:
        memory_by_model(case("ring:3", 4096), ())
    assert str(caught.value) == "3 ranks cannot share N=4096 evenly"
    with pytest.raises(BudgetError, match="textbook has no model"):
        memory_by_model(case("textbook", 4096), ())
