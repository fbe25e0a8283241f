"""The notebook's theory, with its wrong numbers corrected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.profiling import theoretical_memory

SIZES = st.integers(1, 1 << 16)


def test_at_the_notebook_s_sizes():
    found = theoretical_memory(4, 8, 8192, 64)
    inputs = 3 * 4 * 8 * 8192 * 64 * 2
    assert found["inputs"] == inputs == 100_663_296
    assert found["attention_matrix"] == 4_294_967_296  # "4.3 GB"
    assert found["linear_bidir_state"] == 262_144  # not "2 MB"
    assert found["linear_causal_state"] == 2_147_483_648  # not "17 GB"
    # Not "worse than standard": half of one score matrix, and the standard peak holds two.
    assert 2 * found["linear_causal_state"] == found["attention_matrix"]
    output = inputs // 3
    assert found["standard_peak"] == inputs + 2 * found["attention_matrix"] + output


def test_it_has_the_notebook_s_keys():
    found = theoretical_memory(1, 1, 2, 4)
    assert {"inputs", "standard_peak", "linear_bidir_peak", "linear_causal_peak"} <= set(found)
    assert {type(size) for size in found.values()} == {int}


@given(SIZES, SIZES, SIZES, SIZES, st.sampled_from([("fp16", 2), ("fp32", 4), ("float64", 8)]))
def test_every_part_is_its_formula(B, H, N, d, dtype):
    name, itemsize = dtype
    found = theoretical_memory(B, H, N, d, name)
    assert found["inputs"] == 3 * B * H * N * d * itemsize
    assert found["attention_matrix"] == B * H * N * N * itemsize
    assert found["linear_bidir_state"] == B * H * d * d * itemsize
    assert found["linear_causal_state"] == B * H * N * d * d * itemsize
    peak = found["inputs"] + 2 * found["attention_matrix"] + found["inputs"] // 3
    assert found["standard_peak"] == peak
    assert found["linear_bidir_peak"] >= found["inputs"] + found["linear_bidir_state"]
    assert found["linear_causal_peak"] > found["inputs"] + found["linear_causal_state"]


@pytest.mark.parametrize(("N", "worse"), [(512, True), (2048, True), (2200, False), (8192, False)])
def test_the_cumulative_sum_is_worse_than_two_matrices_while_d_squared_is_over_2_N(N, worse):
    found = theoretical_memory(4, 8, N, 64)
    assert (found["linear_causal_peak"] > found["standard_peak"]) == worse


def test_a_dtype_that_is_not_half_is_not_taken_for_single():
    half = theoretical_memory(1, 1, 64, 8, "bf16")
    assert half == theoretical_memory(1, 1, 64, 8, "fp16")
    with pytest.raises(BudgetError, match="unknown dtype 'int4'; expected a torch dtype or one of"):
        theoretical_memory(1, 1, 64, 8, "int4")


@pytest.mark.parametrize("size", [0, -1, 0.5, "8", None])
@pytest.mark.parametrize("place", range(4))
def test_what_is_no_size_is_refused(place, size):
    sizes = [1, 2, 64, 8]
    sizes[place] = size
    name = ("batch_size", "num_heads", "seq_len", "head_dim")[place]
    with pytest.raises(BudgetError) as caught:
        theoretical_memory(*sizes)
    assert str(caught.value) == (
        f"theoretical_memory needs {name} to be a whole number >= 1, got {size!r}"
    )
