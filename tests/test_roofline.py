"""The seven functions of the lab on memory bandwidth, and its example."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.roofline import (
    analyze_inference_bottleneck,
    calculate_arithmetic_intensity,
    calculate_attention_flops,
    calculate_kv_cache_memory,
    calculate_max_tokens_per_second,
    calculate_model_memory,
    is_memory_bound,
)

MODEL = {"num_params": 7e9, "num_layers": 32, "d_model": 4096, "num_heads": 32, "dtype_bytes": 2}
GPU = {"bandwidth_bytes_per_sec": 2e12, "compute_flops": 312e12, "memory_bytes": 80e9}


def test_the_documents_example():
    memory = calculate_model_memory(7e9, dtype_bytes=2)
    assert f"{memory / 1e9:.1f} GB" == "14.0 GB"
    assert f"{calculate_max_tokens_per_second(memory, 2e12):.0f}" == "143"
    cache = calculate_kv_cache_memory(
        batch_size=8, seq_len=2048, num_layers=32, d_model=4096, dtype_bytes=2
    )
    # The document's line prints 8.6 GB; its comment "~8 GB" is in GiB.
    assert cache == 8_589_934_592 == 8 << 30
    assert f"{cache / 1e9:.1f} GB" == "8.6 GB"
    assert analyze_inference_bottleneck(MODEL, GPU)["is_memory_bound"] is True


def test_the_analysis_of_the_example():
    assert analyze_inference_bottleneck(MODEL, GPU) == {
        "model_memory": 14_000_000_000,
        "max_tokens_per_sec": 1000 / 7,
        "kv_cache_memory": 1 << 30,
        "is_memory_bound": True,
        "utilization": pytest.approx(0.0064136),
        "arithmetic_intensity": pytest.approx(1.0005216),
        "ridge_point": 156.0,
        "tokens_per_sec": pytest.approx(132.658),
        "compute_bound_batch_size": None,
        "fits": True,
    }


counts = st.integers(1, 10**12)


@pytest.mark.parametrize(
    ("params", "dtype_bytes", "nbytes"),
    [
        (7e9, 2, 14 * 10**9),
        (7e9, 1, 7 * 10**9),
        (7e9, 0.5, 35 * 10**8),
        (70e9, 4, 28 * 10**10),
        (3, 0.5, 2),  # half a byte is rounded up
        (10, 0.1, 1),  # a tenth, not the float slightly above it
        (6_738_415_616, 2, 13_476_831_232),
        (10**29 + 1, 1, 10**29 + 1),
    ],
)
def test_weights(params, dtype_bytes, nbytes):
    found = calculate_model_memory(params, dtype_bytes)
    assert (found, type(found)) == (nbytes, int)
    assert dtype_bytes != 2 or calculate_model_memory(params) == nbytes


@given(counts, counts, st.sampled_from([0.5, 1, 2, 4]))
def test_more_parameters_never_take_less(few, more, dtype_bytes):
    one = calculate_model_memory(few, dtype_bytes)
    assert one == -(-few * int(dtype_bytes * 2) // 2)
    assert calculate_model_memory(few + more, dtype_bytes) >= one


def test_intensity_and_the_ridge_point_at_which_it_is_not_memory_bound():
    assert calculate_arithmetic_intensity(2 * 4096 * 4096, 2 * 4096 * 4096) == 1.0
    assert calculate_arithmetic_intensity(1, 8) == 0.125
    bound = [is_memory_bound(at, 312e12, 2e12) for at in (1, 155.999, 156, 156.0, 1e6)]
    assert bound == [True, True, False, False, False]


@given(counts, counts, counts)
def test_tokens_a_second_fall_with_memory_and_rise_with_bandwidth(memory, bandwidth, more):
    rate = calculate_max_tokens_per_second(memory, bandwidth)
    assert rate == bandwidth / memory
    assert calculate_max_tokens_per_second(memory + more, bandwidth) <= rate
    assert calculate_max_tokens_per_second(memory, bandwidth + more) >= rate


@given(counts, counts, counts)
def test_what_is_memory_bound_stays_so_on_a_faster_processor(intensity, compute, bandwidth):
    bound = is_memory_bound(intensity, compute, bandwidth)
    assert bound == (intensity * bandwidth < compute)
    assert is_memory_bound(intensity, 2 * compute, bandwidth) >= bound
    assert is_memory_bound(intensity, compute, 2 * bandwidth) <= bound


@given(*[st.integers(1, 4096)] * 3, st.integers(1, 64), st.integers(1, 256))
def test_attention_is_exact(batch, queries, keys, heads, width):
    pairs = batch * heads * queries * keys
    found = calculate_attention_flops(batch, queries, keys, heads * width, heads)
    assert found == pairs * (2 * width + 5 + 2 * width)  # q·kᵀ, softmax, ·v
    found = calculate_attention_flops(batch, queries, keys, 7, heads, head_dim=width)
    assert found == pairs * (4 * width + 5)


@pytest.mark.parametrize("number", [0, -1, float("nan"), float("inf"), True, "7e9", None])
@pytest.mark.parametrize(
    ("function", "names"),
    [
        (calculate_model_memory, ("num_params", "dtype_bytes")),
        (calculate_max_tokens_per_second, ("model_memory_bytes", "bandwidth_bytes_per_sec")),
        (calculate_arithmetic_intensity, ("flops", "bytes_loaded")),
        (is_memory_bound, ("arithmetic_intensity", "compute_flops", "bandwidth_bytes_per_sec")),
        (
            calculate_kv_cache_memory,
            ("batch_size", "seq_len", "num_layers", "d_model", "dtype_bytes"),
        ),
        (
            calculate_attention_flops,
            ("batch_size", "seq_len_q", "seq_len_k", "d_model", "num_heads"),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_positive_number_is_refused_wherever_it_stands(function, names, number):
    for name in names:
        with pytest.raises(BudgetError, match=rf"^{name}: expected a .*number from 1.*, got .*$"):
            function(**{**dict.fromkeys(names, 1), name: number})


def test_utilization_is_the_share_of_peak_that_the_intensity_allows():
    for batch in (1, 64, 1024):
        found = analyze_inference_bottleneck({**MODEL, "batch_size": batch, "seq_len": 16}, GPU)
        share = min(1.0, found["arithmetic_intensity"] / found["ridge_point"])
        assert found["utilization"] == pytest.approx(share, rel=1e-15)
        assert found["is_memory_bound"] is (share < 1)
    assert share == 1.0


def test_without_its_memory_nobody_knows_what_fits():
    device = {key: value for key, value in GPU.items() if key != "memory_bytes"}
    assert analyze_inference_bottleneck(MODEL, device)["fits"] is None
    device["memory_bytes"] = 14_000_000_000 + (1 << 30)
    assert analyze_inference_bottleneck(MODEL, device)["fits"] is True
    device["memory_bytes"] -= 1
    assert analyze_inference_bottleneck(MODEL, device)["fits"] is False


@pytest.mark.parametrize(
    ("model", "gpu", "message"),
    [
        (
            {"num_kv_head": 8},
            {},
            "model_config: unknown key 'num_kv_head'; did you mean 'num_kv_heads'? expected"
            " num_params, num_layers, d_model, num_heads, dtype_bytes, batch_size, seq_len,"
            " num_kv_heads, head_dim, latent_dim, rope_dim, kv_dtype_bytes, kv_group_size,"
            " kv_group_bytes, activation_bytes, name",
        ),
        (
            {"num_heads": None, "d_model": None},
            {},
            "model_config: d_model, num_heads missing; it needs num_params, num_layers, d_model,"
            " num_heads",
        ),
        (
            {},
            {"compute_flops": None},
            "gpu_config: compute_flops missing; it needs bandwidth_bytes_per_sec, compute_flops",
        ),
        ({}, {"memory_bytes": 0}, "memory_bytes: expected a number from 1e-30 to 1e30, got 0"),
        ({"batch_size": 0.5}, {}, "batch_size: expected a whole number from 1 to 1e30, got 0.5"),
        (  # by the key of the configuration
            {"kv_group_size": 0.5},
            {},
            "kv_group_size: expected a whole number from 1 to 1e30, got 0.5",
        ),
    ],
)
def test_a_configuration_that_cannot_be_is_told_in_one_line(model, gpu, message):
    with pytest.raises(BudgetError) as caught:
        analyze_inference_bottleneck({**MODEL, **model}, {**GPU, **gpu})
    assert str(caught.value) == message
    with pytest.raises(BudgetError) as caught:
        analyze_inference_bottleneck(MODEL, "A100")
    assert str(caught.value) == "gpu_config: expected a dict, got 'A100'"
