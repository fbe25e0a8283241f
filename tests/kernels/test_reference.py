"""The reference itself, against values worked out by hand and laws that attention obeys."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_attnmem.kernels.reference import standard_attention
from pytest_attnmem.measurement.protocol import BackendProtocol
from pytest_attnmem.measurement.window_stack import window

RANDOM = np.random.default_rng(0)


def test_by_hand():
    # Two keys, scores 0 and log 3: weights 1/4 and 3/4.
    output, weights = standard_attention([[1.0]], [[0.0], [math.log(3)]], [[0.0, 4.0], [8.0, 0.0]])
    np.testing.assert_allclose(weights, [[0.25, 0.75]], rtol=1e-15)
    np.testing.assert_allclose(output, [[6.0, 1.0]], rtol=1e-15)


def test_the_scale_is_one_over_root_d():
    _, weights = standard_attention(
        np.full((1, 4), math.log(3) / 2), [[1.0] * 4, [0.0] * 4], [[0.0]] * 2
    )
    np.testing.assert_allclose(weights, [[0.75, 0.25]], rtol=1e-15)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 3, 4)], ids=str)
def test_any_number_of_batch_dimensions(batch):
    Q, K, V = (RANDOM.standard_normal((*batch, *size)) for size in ((5, 8), (7, 8), (7, 4)))
    output, weights = standard_attention(Q, K, V)
    assert output.shape == (*batch, 5, 4)
    assert weights.shape == (*batch, 5, 7)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-14)
    for index in np.ndindex(*batch):
        one, _ = standard_attention(Q[index], K[index], V[index])
        np.testing.assert_allclose(output[index], one, rtol=1e-13)


def test_causal_is_aligned_at_the_first_query():
    _, weights = standard_attention(
        np.zeros((3, 2)), np.zeros((4, 2)), np.zeros((4, 2)), causal=True
    )
    third = 1 / 3
    np.testing.assert_allclose(
        weights, [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [third, third, third, 0]], rtol=1e-15
    )


@pytest.mark.parametrize(
    "mask",
    [np.array([True, False, True]), np.array([1, 0, 1]), np.array([0.0, -np.inf, 0.0])],
    ids=["bool", "integers", "floats"],
)
def test_masks(mask):
    _, weights = standard_attention(np.zeros((2, 1)), np.zeros((3, 1)), np.zeros((3, 1)), mask)
    np.testing.assert_allclose(weights, [[0.5, 0, 0.5]] * 2, rtol=1e-15)


def test_a_query_that_sees_nothing_gets_zeros():
    mask = np.array([[False, False], [True, False]])
    output, weights = standard_attention(np.ones((2, 1)), np.ones((2, 1)), np.ones((2, 3)), mask)
    assert weights.tolist() == [[0, 0], [1, 0]]
    assert output.tolist() == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_dtype_stays(dtype):
    Q = np.ones((2, 3), dtype)
    mask = np.array([[0.0, 1.0], [0.0, 0.0]])
    for options in ({}, {"causal": True}, {"mask": mask}, {"mask": mask > 0, "scale": 0.5}):
        output, weights = standard_attention(Q, Q, Q, **options)
        assert (output.dtype, weights.dtype) == (dtype, dtype)


def test_integers_become_float64():
    output, _ = standard_attention([[1]], [[1]], [[2]])
    assert output.dtype == np.float64


def test_large_scores_do_not_overflow():
    output, _ = standard_attention([[1e200]], [[1e100], [-1e100]], [[1.0], [2.0]])
    assert output.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("Q", "K", "V"),
    [((3,), (2, 3), (2, 3)), ((2, 3), (2, 4), (2, 3)), ((2, 3), (5, 3), (4, 3))],
    ids=str,
)
def test_shapes_that_do_not_fit(Q, K, V):
    with pytest.raises(ValueError, match=r"^Q, K and V must have shapes .* got \["):
        standard_attention(np.ones(Q), np.ones(K), np.ones(V))


def test_its_memory_is_not_torchs_so_it_has_no_model(cpu: BackendProtocol) -> None:
    q = RANDOM.standard_normal((64, 8))
    with window(cpu) as opened:
        standard_attention(q, q, q)
    assert opened.measurement is not None
    assert (opened.measurement.allocations, opened.measurement.peak_bytes) == (0, 0)
