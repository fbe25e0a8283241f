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
    assert {type(size) for size in found.values()} == {int}


@pytest.mark.parametrize(("N", "worse"), [(512, True), (2048, True), (2200, False), (8192, False)])
def test_the_cumulative_sum_is_worse_than_two_matrices_while_d_squared_is_over_2_N(N, worse):
    found = theoretical_memory(4, 8, N, 64)
    assert (found["linear_causal_peak"] > found["standard_peak"]) == worse


@pytest.mark.parametrize("name", ["batch_size", "num_heads", "seq_len", "head_dim"])
def test_what_is_no_size_or_dtype_is_refused(name):
    sizes = {"batch_size": 1, "num_heads": 2, "seq_len": 64, "head_dim": 8}
    for size in (0, -1, 0.5, "8", None):
        with pytest.raises(BudgetError) as caught:
            theoretical_memory(**{**sizes, name: size})
        assert str(caught.value) == (
            f"theoretical_memory needs {name} to be a whole number >= 1, got {size!r}"
        )
    assert theoretical_memory(**sizes, dtype="bf16") == theoretical_memory(**sizes, dtype="fp16")
    with pytest.raises(BudgetError, match="unknown dtype 'int4'; expected a torch dtype or one of"):
        theoretical_memory(**sizes, dtype="int4")
