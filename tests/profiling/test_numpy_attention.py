"""Lab 01: standard attention in NumPy, and the memory that the document expects."""

import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem import parse_size
from pytest_attnmem.errors import AttnMemError, BudgetError
from pytest_attnmem.kernels import reference
from pytest_attnmem.profiling import (
    estimate_attention_memory,
    measure_attention_memory,
    numpy_attention,
    profile_memory_scaling,
    standard_attention,
)

RANDOM = np.random.default_rng(0)
SIZES = st.integers(1, 1 << 40)


def arrays(batch=(), N=5, M=7, d=8, dv=4, dtype=np.float32):
    shapes = ((*batch, N, d), (*batch, M, d), (*batch, M, dv))
    return [RANDOM.standard_normal(shape).astype(dtype) for shape in shapes]


class TestStandardAttention:
    @pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
    def test_returns_the_output_and_the_weights(self, batch):
        Q, K, V = arrays(batch)
        output, weights = standard_attention(Q, K, V)
        assert (output.shape, weights.shape) == ((*batch, 5, 4), (*batch, 5, 7))
        assert output.dtype == weights.dtype == np.float32
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)
        np.testing.assert_allclose(output, weights @ V, rtol=1e-5, atol=1e-6)

    def test_is_the_reference_of_the_kernels(self):
        mask = RANDOM.random((5, 7)) < 0.5
        found = standard_attention(*(inputs := arrays()), mask)
        for one, other in zip(found, reference.standard_attention(*inputs, mask), strict=True):
            np.testing.assert_array_equal(one, other)

    def test_a_mask_is_true_where_a_key_is_seen(self):
        Q, K, V = arrays()
        mask = np.array([True, False, True, False, False, False, False])
        output, weights = standard_attention(Q, K, V, mask)
        np.testing.assert_array_equal(weights[:, ~mask], 0)
        np.testing.assert_allclose(output, standard_attention(Q, K[mask], V[mask])[0], rtol=1e-5)

    def test_large_scores_do_not_overflow(self):
        _, weights = standard_attention([[1e4]], [[1e4], [-1e4]], [[1.0], [2.0]])
        np.testing.assert_array_equal(weights, [[1, 0]])

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (([[1]], [[1, 2]], [[1]]), "needs Q [..., N, d], K [..., M, d] and V [..., M, dv] with"
             " d and M >= 1, got [1, 1], [1, 2] and [1, 1]"),
            (([[1]], [[1], [1]], [[1]]), "needs Q [..., N, d], K [..., M, d] and V [..., M, dv]"
             " with d and M >= 1, got [1, 1], [2, 1] and [1, 1]"),
            (([1], [[1]], [[1]]), "needs Q [..., N, d], K [..., M, d] and V [..., M, dv] with d"
             " and M >= 1, got [1], [1, 1] and [1, 1]"),
            (([[1]], np.ones((0, 1)), np.ones((0, 1))), "needs Q [..., N, d], K [..., M, d] and V"
             " [..., M, dv] with d and M >= 1, got [1, 1], [0, 1] and [0, 1]"),
            ((np.ones((2, 1, 1)), np.ones((3, 1, 1)), [[1]]), "needs leading dimensions of Q, K"
             " and V that broadcast, got [2, 1, 1], [3, 1, 1] and [1, 1]"),
            (([[1]], [[1]], [[1]], [True, False]), "needs a mask that broadcasts to [..., N, M] ="
             " [1, 1], got [2]"),
            (([[1]], [[1], [2]], [[1], [2]], [1, 1, 1]), "needs a mask that broadcasts to"
             " [..., N, M] = [1, 2], got [3]"),
            (([["a"]], [[1]], [[1]]), "needs Q to be an array of numbers, got an array of <U1"),
            (([[1]], [[1], [1, 2]], [[1]]), "needs K to be an array of numbers, got ValueError:"),
        ],
    )  # fmt: skip
    def test_what_does_not_fit_is_refused_in_a_line(self, arguments, text):
        with pytest.raises(BudgetError) as caught:
            standard_attention(*arguments)
        assert isinstance(caught.value, ValueError)
        assert str(caught.value).startswith(f"standard_attention {text}")
        assert "\n" not in str(caught.value)

    def test_without_numpy_it_says_what_it_needs(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "numpy", None)
        with pytest.raises(AttnMemError) as caught:
            standard_attention([[1]], [[1]], [[1]])
        assert str(caught.value) == (
            "standard_attention needs numpy, which is not installed;"
            " pip install 'pytest-attnmem[torch]'"
        )


class TestEstimate:
    def test_what_the_document_expects_at_4096(self):
        assert estimate_attention_memory(4096, 64) == {
            "input_memory": parse_size("3 MiB"),
            "attention_matrix_memory": parse_size("64 MiB"),
            "output_memory": parse_size("1 MiB"),
            "total_memory": parse_size("68 MiB"),
        }

    @given(SIZES, SIZES, st.sampled_from([1, 2, 4, 8]))
    def test_the_formulas(self, N, d, itemsize):
        found = estimate_attention_memory(N, d, dtype_bytes=itemsize)
        assert found["input_memory"] == 3 * N * d * itemsize
        assert found["attention_matrix_memory"] == N * N * itemsize
        assert found["output_memory"] == N * d * itemsize
        assert found.pop("total_memory") == sum(found.values())

    @pytest.mark.parametrize(
        ("name", "size"),
        [
            *(("dtype_bytes", 0.5), ("dtype_bytes", 0), ("seq_len", -1), ("seq_len", 0)),
            *(("seq_len", 1.5), ("seq_len", "64"), ("d_model", True), ("d_model", None)),
        ],
    )
    def test_what_is_no_size_is_refused(self, name, size):
        with pytest.raises(BudgetError) as caught:
            estimate_attention_memory(**{"seq_len": 64, "d_model": 64, name: size})
        assert str(caught.value) == (
            f"estimate_attention_memory needs {name} to be a whole number >= 1, got {size!r}"
        )

    def test_numpy_s_integers_are_sizes(self):
        found = estimate_attention_memory(np.int32(1 << 20), np.int64(64))
        assert found["attention_matrix_memory"] == 1 << 42
        assert {type(size) for size in found.values()} == {int}


class TestMeasure:
    @pytest.mark.parametrize(("seq_len", "d_model"), [(1, 1), (3, 5), (128, 16), (512, 64)])
    def test_what_is_left_is_what_was_estimated(self, seq_len, d_model):
        found = measure_attention_memory(seq_len, d_model)
        found.pop("peak_memory")
        assert found == estimate_attention_memory(seq_len, d_model)

    def test_a_batch_multiplies_all_of_it(self):
        found, one = measure_attention_memory(64, 8, batch_size=3), measure_attention_memory(64, 8)
        assert [*found] == [*one]
        assert found["total_memory"] == 3 * one["total_memory"]

    @pytest.mark.parametrize("tracing", [False, True])
    def test_the_peak_holds_three_matrices(self, tracing):
        # scores, scores minus their maximum, and weights; plus the interpreter's objects
        if tracing:
            tracemalloc.start()
            bytes(1 << 26)  # a higher peak, before the call
        try:
            found = measure_attention_memory(512, 64)
            assert tracemalloc.is_tracing() == tracing
        finally:
            tracemalloc.stop()
        three = 3 * found["attention_matrix_memory"]
        assert three <= found["peak_memory"] < three + 64 * 1024

    def test_what_it_imports_is_not_counted(self, monkeypatch):
        tracing = []

        monkeypatch.setattr(
            numpy_attention, "_check_numpy", lambda: tracing.append(tracemalloc.is_tracing())
        )
        measure_attention_memory(8, 8)
        assert tracing[0] is False

    def test_it_runs_at_each_length(self):
        found = profile_memory_scaling([64, 128, 256], d_model=16)
        assert [*found] == [64, 128, 256]
        matrices = [stats["attention_matrix_memory"] for stats in found.values()]
        assert matrices == [64 * 64 * 4, 128 * 128 * 4, 256 * 256 * 4]

    @pytest.mark.parametrize(
        ("lengths", "text"),
        [
            (512, "seq_lengths to be a list of sizes, such as [512, 1024], got 512"),
            ("512", "seq_lengths to be a list of sizes, such as [512, 1024], got '512'"),
            ([], "at least one of seq_lengths, got none"),
            ([512, -1], "seq_len to be a whole number >= 1, got -1"),
        ],
    )
    def test_lengths_that_are_none_are_refused(self, lengths, text):
        with pytest.raises(BudgetError) as caught:
            profile_memory_scaling(lengths)
        assert str(caught.value) == f"profile_memory_scaling needs {text}"

    @pytest.mark.parametrize("d_model", [1 << 60, 1 << 63, 10**40])
    def test_what_does_not_fit_is_no_traceback(self, d_model):
        with pytest.raises(AttnMemError, match="does not fit in memory") as caught:
            measure_attention_memory(1, d_model)
        text = str(caught.value)
        assert text.startswith(f"measure_attention_memory(seq_len=1, d_model={d_model}, batch")
        assert text.endswith("; estimate_attention_memory needs none")
        with pytest.raises(BudgetError) as caught:
            measure_attention_memory(64, d_model, batch_size=0)
        assert str(caught.value) == (
            "measure_attention_memory needs batch_size to be a whole number >= 1, got 0"
        )
