"""The KV cache of real models, and of models that are not possible."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.inference.kv_cache import kv_cache, width_of_head
from pytest_attnmem.inference.numbers import Given, exact, positive, whole
from pytest_attnmem.roofline import calculate_kv_cache_memory


@pytest.mark.parametrize(
    ("layers", "d_model", "layout", "nbytes"),
    [
        (32, 4096, {}, 524_288),
        # Table 1 of "Insights into DeepSeek-V3" (2025).
        (61, 7168, {"latent_dim": 512, "rope_dim": 64}, 70_272),
        (80, 8192, {"num_heads": 64, "num_kv_heads": 8}, 327_680),
        (126, 16384, {"num_heads": 128, "num_kv_heads": 8}, 516_096),
        (126, 16384, {"num_kv_heads": 8, "head_dim": 128}, 516_096),
        (61, 7168, {"latent_dim": 512}, 62_464),
        # Gemma 7B has heads wider than d_model / num_heads.
        (28, 3072, {"num_heads": 16, "head_dim": 256}, 458_752),
    ],
)
def test_a_token_of_known_models_in_sixteen_bits(layers, d_model, layout, nbytes):
    assert calculate_kv_cache_memory(1, 1, layers, d_model, 2, **layout) == nbytes


@pytest.mark.parametrize(
    ("dtype_bytes", "group_size", "group_bytes", "nbytes"),
    [
        (1, None, 2, 128),
        (1, 32, 2, 4 * 34),  # llama.cpp's q8_0
        (0.5, 32, 2, 4 * 18),  # q4_0
        (0.5, 32, 4, 4 * 20),  # q4_1, with a minimum as well
        (0.5, 128, 4, 68),
        (0.5, 100, 2, 68),  # the second group is short
        (0.5, 1000, 2, 66),
    ],
)
def test_scales_of_a_quantised_cache_are_counted(dtype_bytes, group_size, group_bytes, nbytes):
    heads = {"num_heads": 4, "num_kv_heads": 1}
    cache = {"group_size": group_size, "group_bytes": group_bytes}
    assert calculate_kv_cache_memory(1, 1, 1, 512, dtype_bytes, **heads, **cache) == 2 * nbytes


def test_a_head_has_its_share_unless_it_is_told():
    model = {"d_model": 4096, "num_heads": 32}
    assert width_of_head(Given(model)) == 128
    assert width_of_head(Given({**model, "num_heads": 33, "head_dim": 100})) == 100


def test_half_a_byte_is_rounded_up_once():
    given = Given({"num_layers": 1, "d_model": 8, "latent_dim": 3})
    assert kv_cache(given, Fraction(1, 2)).token_bytes == Fraction(3, 2)
    nbytes = [calculate_kv_cache_memory(1, n, 1, 8, 0.5, latent_dim=3) for n in (1, 2, 3)]
    assert nbytes == [2, 3, 5]


sizes = st.integers(1, 1 << 20)


@given(sizes, sizes, sizes, sizes, st.integers(1, 16))
def test_it_is_the_documents_formula_to_the_byte(batch, seq_len, layers, d_model, dtype_bytes):
    expected = batch * seq_len * layers * 2 * d_model * dtype_bytes
    assert calculate_kv_cache_memory(batch, seq_len, layers, d_model, dtype_bytes) == expected


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 256), st.integers(1, 256))
def test_fewer_heads_and_larger_groups_never_cost_more(own, shared, head_dim, group):
    def nbytes(kv_heads: int, group_size: int) -> int:
        layout = {"num_kv_heads": kv_heads, "head_dim": head_dim, "group_size": group_size}
        return calculate_kv_cache_memory(2, 3, 4, 64, 0.5, **layout)

    assert nbytes(own, group) * shared == nbytes(own * shared, group)
    assert nbytes(own, group + 1) <= nbytes(own, group)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (
            {"num_heads": 32, "num_kv_heads": 5},
            "num_kv_heads: expected a divisor of num_heads 32, got 5",
        ),
        (
            {"num_heads": 33},
            "num_heads: expected a divisor of d_model 4096, got 33; or give head_dim",
        ),
        *(
            (
                {name: 128},
                f"{name}: it does not determine the width of the cache alone; give num_heads too",
            )
            for name in ("num_kv_heads", "head_dim")
        ),
        (
            {"latent_dim": 512, "num_kv_heads": 8},
            "num_kv_heads and latent_dim: all heads share the latent; give one of the two",
        ),
        ({"rope_dim": 64}, "rope_dim: only a latent has it; give latent_dim too"),
        ({"latent_dim": 0}, "latent_dim: expected a whole number from 1 to 1e30, got 0"),
        ({"group_size": 0.5}, "group_size: expected a whole number from 1 to 1e30, got 0.5"),
        ({"group_bytes": -2}, "group_bytes: expected a number from 1e-30 to 1e30, got -2"),
    ],
)
def test_what_does_not_go_together_is_told(layout, message):
    with pytest.raises(BudgetError) as caught:
        calculate_kv_cache_memory(1, 1, 32, 4096, **layout)
    assert str(caught.value) == message


NONE = (0, -1, 0.0, -0.5, float("nan"), float("inf"), True, None, "7e9", 1j, Decimal(1), [1])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7e9, 7 * 10**9),
        (0.5, Fraction(1, 2)),
        (0.1, Fraction(1, 10)),  # the decimal, not the binary fraction
        (Fraction(1, 3), Fraction(1, 3)),
        (2**90 + 1, 2**90 + 1),
        (np.int64(7), 7),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.5), Fraction(1, 2)),
        (1e30, 10**30),
        (1e-30, Fraction(1, 10**30)),
    ],
)
def test_a_number_is_taken_exactly(value, expected):
    assert exact("x", value) == expected
    assert positive("x", value) == float(expected)


@pytest.mark.parametrize(
    "value", [*NONE, np.bool_(True), 10**30 + 1, 1e-31, pytest.param(10**5000, id="long")]
)
def test_what_is_no_positive_number_is_refused_by_name(value):
    with pytest.raises(BudgetError) as caught:
        exact("bandwidth", value)
    with pytest.raises(BudgetError, match=r"^bandwidth: "):
        positive("bandwidth", value)
    assert str(caught.value).startswith("bandwidth: expected a number from 1e-30 to 1e30, got ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [*NONE, 0.5, 2048.5, Fraction(3, 2), 10**31])
def test_what_is_not_whole_is_refused_by_name(value):
    with pytest.raises(BudgetError) as caught:
        whole("seq_len", value)
    assert str(caught.value).startswith("seq_len: expected a whole number from 1 to 1e30, got ")


@given(st.floats(1e-30, 1e30), st.integers(1, 10**30))
def test_a_float_is_the_decimal_that_is_printed_and_a_whole_number_itself(value, number):
    assert exact("x", value) == Fraction(Decimal(repr(value)))
    assert positive("x", value) == value
    assert whole("x", number) == exact("x", number) == number


def test_a_number_that_is_none_is_not_given_and_refused_by_the_name_that_the_user_knows():
    given = Given({"heads": None, "width": 64})
    assert ("heads" in given, "width" in given, "depth" in given) == (False, True, False)
    assert (given.whole("heads", 8), given.whole("width", 8)) == (8, 64)
    assert (given.exact("heads", Fraction(1, 2)), given.exact("width", 2)) == (Fraction(1, 2), 64)
    with pytest.raises(BudgetError) as caught:
        given.whole("heads")
    assert str(caught.value) == "heads: expected a whole number from 1 to 1e30, got None"
    given = Given({"heads": 0, "width": 0}, {"heads": "--heads"})
    for name, label in (("heads", "--heads"), ("width", "width")):
        with pytest.raises(BudgetError, match=f"^{label}: expected a whole number from 1"):
            given.whole(name)
        with pytest.raises(BudgetError, match=f"^{label}: expected a number from 1"):
            given.exact(name, 1)
