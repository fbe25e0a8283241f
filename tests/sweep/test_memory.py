"""The memory of one case: what is alive before the backward pass, at the peak, and who made it."""

from collections import Counter

import pytest

from pytest_attnmem.sweep.memory import observe

B, N, d = 8, 256, 32
TENSOR, MATRIX = B * N * d * 4, B * N * N * 4


def test_all_that_is_alive_at_the_peak_is_told_by_stage(case, gtx_1080):
    seen = observe(case("textbook", N, d), gtx_1080)
    assert sum(held.nbytes for stage in seen.alive.values() for held in stage) == seen.peak_bytes
    sizes = {stage: Counter(held.nbytes for held in made) for stage, made in seen.alive.items()}
    assert list(sizes) == [
        *("inputs", "warm-up", "warm-up backward", "copies", "forward"),
        *("upstream gradient", "backward"),
    ]
    assert sizes["inputs"] == {TENSOR: 3 + 1}  # the mask is as large
    for stage in ("warm-up", "warm-up backward", "copies"):
        assert sizes[stage] == {TENSOR: 3}
    # exponentials, the bool mask, out, int64 places and float32 sums of the rows
    assert sizes["forward"] == {MATRIX: 1, N * N: 1, TENSOR: 1, B * N * 8: 1, B * N * 4: 1}
    assert sizes["upstream gradient"] == {TENSOR: 1}
    assert sizes["backward"] == {MATRIX: 5, TENSOR: 1}  # and the gradient of v


def test_a_forward_pass_alone_keeps_nothing_for_a_backward_pass(case, gtx_1080):
    seen = observe(case("textbook", N, d, backward=False, causal=False), gtx_1080)
    assert seen.before_bytes is None
    # scores in the caller, shifted, exponentials and weights, and their sums
    assert seen.peak_bytes == 3 * TENSOR + 4 * MATRIX + B * N * 4
    assert list(seen.alive) == ["inputs", "forward"]


@pytest.mark.parametrize("name", ["standard", "checkpointed", "flash", "sdpa-math"])
def test_any_kernel_is_told_to_the_byte(case, gtx_1080, name):
    seen = observe(case(name, N, d), gtx_1080)
    assert sum(held.nbytes for stage in seen.alive.values() for held in stage) == seen.peak_bytes
    assert seen.unmeasured == ""
    assert 13 * TENSOR < seen.before_bytes < seen.peak_bytes <= seen.reserved_bytes


def test_what_the_attention_raises_is_raised(case, gtx_1080):
    with pytest.raises(RuntimeError, match="flash backend refuses"):
        observe(case("sdpa-flash", N, d), gtx_1080)
