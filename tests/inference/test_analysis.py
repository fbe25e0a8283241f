"""The limits of inference, operation by operation; sums done by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.inference.analysis import ATTENTION, Analysis, analysis_of
from pytest_attnmem.inference.roof import roof
from pytest_attnmem.profiles import PROFILES

SMALL = {"num_params": 1000, "num_layers": 2, "d_model": 8, "num_heads": 4}
DEVICE = {"bandwidth_bytes_per_sec": 100, "compute_flops": 1000, "memory_bytes": 10_000}
LLAMA = {"num_params": 8e9, "num_layers": 32, "d_model": 4096, "num_heads": 32, "num_kv_heads": 8}
DEEPSEEK = {
    **{"num_params": 671e9, "num_layers": 61, "d_model": 7168, "num_heads": 128},
    **{"head_dim": 128, "latent_dim": 512, "rope_dim": 64},
}


def operations(step):
    return [(one.name, one.flops, one.weight_bytes, one.sequence_bytes) for one in step.operations]


def test_the_operations_of_a_small_model_counted_by_hand():
    found = analysis_of({**SMALL, "batch_size": 3, "seq_len": 5}, DEVICE)
    qkv, output = 2 * 8 * 24, 2 * 8 * 8
    rest = 1000 - qkv - output
    assert operations(found.decode) == [
        ("QKV projections", 2 * qkv * 3, qkv * 2, 3 * 2 * (8 + 24) * 2),
        (ATTENTION, 3 * 2 * 4 * 5 * (4 * 2 + 5), 0, 3 * 5 * 64 + 3 * 2 * 16 * 2),
        ("output projection", 2 * output * 3, output * 2, 3 * 2 * 16 * 2),
        ("MLP and the rest", 2 * rest * 3, rest * 2, 3 * 2 * 16 * 2),
    ]
    assert operations(found.prefill) == [
        ("QKV projections", 2 * qkv * 15, qkv * 2, 15 * 2 * (8 + 24) * 2),
        (ATTENTION, 15 * 2 * 4 * 5 * (4 * 2 + 5), 0, 3 * 5 * 64 + 15 * 2 * 16 * 2),
        ("output projection", 2 * output * 15, output * 2, 15 * 2 * 16 * 2),
        ("MLP and the rest", 2 * rest * 15, rest * 2, 15 * 2 * 16 * 2),
    ]
    assert (found.decode.tokens, found.prefill.tokens) == (3, 15)
    for step in (found.decode, found.prefill):
        assert step.whole.flops == sum(one.flops for one in step.operations)
        assert step.whole.nbytes == sum(one.nbytes for one in step.operations)


def test_grouped_queries_read_less_and_compute_as_much():
    own, shared = (
        analysis_of({**LLAMA, "num_kv_heads": heads}, DEVICE).decode.operations for heads in (32, 8)
    )
    assert own[1].flops == shared[1].flops
    assert shared[1].intensity == pytest.approx(4 * own[1].intensity, rel=0.002)
    assert (own[0].flops, shared[0].flops) == (2 * 32 * 3 * 4096**2, 2 * 32 * 4096**2 * 3 // 2)


def test_a_latent_is_read_once_for_all_heads():
    found = analysis_of({**DEEPSEEK, "seq_len": 4096}, DEVICE)
    decode, prefill = found.decode.operations[1], found.prefill.operations[1]
    assert found.kv_cache_bytes == 4096 * 70_272
    # One query reads latents of 512+64, and its output is a latent of 512.
    assert decode.flops == 61 * 128 * 4096 * (2 * 576 + 5 + 2 * 512)
    assert decode.nbytes == 4096 * 70_272 + 61 * 128 * (576 + 512) * 2
    # Many queries read the heads' own keys of 128+64 and values of 128.
    assert prefill.flops == 61 * 128 * 4096**2 * (2 * 192 + 5 + 2 * 128)
    assert prefill.nbytes == 61 * 128 * 4096 * 2 * (192 + 128) * 2
    query, down, up = 7168 * 128 * 192, 7168 * 576, 512 * 2 * 128 * 128
    assert found.decode.operations[0].flops == 2 * 61 * (query + down + up)


def test_not_every_decoding_is_memory_bound():
    # The lab says that decoding always is; the attention of a latent is not, on some devices.
    found = analysis_of({**DEEPSEEK, "seq_len": 4096}, DEVICE)
    intensity = found.decode.operations[1].intensity
    bound = {name: roof(PROFILES[name], "bf16").is_memory_bound(intensity) for name in PROFILES}
    assert (bound["H100"], bound["H200"], bound["A100-80GB"]) == (True, False, False)
    assert 228 < intensity < 229


def test_batching_raises_the_intensity_of_weights_and_not_of_attention():
    found = [analysis_of({**LLAMA, "batch_size": batch}, DEVICE).decode for batch in (1, 16)]
    (_, one, *_), (_, many, *_) = (step.operations for step in found)
    assert one.intensity == many.intensity
    (one, *_), (many, *_) = (step.operations for step in found)
    assert one.intensity < 1 < 15.8 < many.intensity < 16


def analysis(batch_size, seq_len, **changes):
    return analysis_of({**LLAMA, "batch_size": batch_size, "seq_len": seq_len, **changes}, A100)


A100 = {"bandwidth_bytes_per_sec": 2e12, "compute_flops": 312e12, "memory_bytes": 80e9}


@given(st.integers(1, 4096), st.integers(1, 100_000), st.sampled_from([0.5, 1, 2]))
def test_what_fits_fits_and_one_more_does_not(batch, seq_len, dtype_bytes):
    found = analysis(batch, seq_len, dtype_bytes=dtype_bytes)
    longest, largest = found.longest_seq_len, found.largest_batch_size
    assert found.fits == (seq_len <= longest) == (batch <= largest)
    for most, at in ((longest, lambda n: (batch, n)), (largest, lambda n: (n, seq_len))):
        assert most == 0 or analysis(*at(most), dtype_bytes=dtype_bytes).fits
        assert not analysis(*at(most + 1), dtype_bytes=dtype_bytes).fits


@given(st.integers(1, 4096), st.integers(1, 4096), st.sampled_from([0.5, 1, 2]))
def test_the_batch_where_it_stops_being_memory_bound_is_exact(batch, seq_len, dtype_bytes):
    found = analysis(batch, seq_len, dtype_bytes=dtype_bytes)
    stops = found.compute_bound_batch(found.decode.operations)

    def bound(size: int) -> bool:
        step = analysis(size, seq_len, dtype_bytes=dtype_bytes).decode
        return found.roof.is_memory_bound(step.whole.intensity)

    if stops is None:
        assert bound(10**12)
    else:
        assert not bound(stops)
        assert stops == 1 or bound(stops - 1)


def test_the_cache_decides_whether_it_ever_stops():
    stops = {
        n: analysis(1, n).compute_bound_batch(analysis(1, n).decode.operations)
        for n in (1, 128, 1024)
    }
    assert stops == {1: 160, 128: 191, 1024: None}


def test_tokens_a_second_are_those_of_memory_while_nothing_else_is_moved():
    found = analysis(8, 2048)
    assert found.weights_tokens_per_sec == 2e12 / 16e9
    needed = 16 * 10**9 + 8 * 2048 * 131_072
    assert found.memory_tokens_per_sec == 8 * 2e12 / needed
    activations = found.decode.whole.nbytes - needed
    assert found.tokens_per_sec == pytest.approx(8 * 2e12 / (needed + activations), rel=1e-15)


@given(st.integers(1, 2048), st.integers(1, 8192))
def test_longer_and_larger_never_takes_less(batch, seq_len):
    found: Analysis = analysis(batch, seq_len)
    for other in (analysis(batch + 1, seq_len), analysis(batch, seq_len + 1)):
        assert other.kv_cache_bytes > found.kv_cache_bytes
        assert other.seconds(other.decode) > found.seconds(found.decode)
        assert other.seconds(other.prefill) > found.seconds(found.prefill)
    assert 0 < found.utilization(found.decode) <= found.utilization(found.prefill) <= 1


def test_activations_and_cache_are_sixteen_bits_when_weights_are_fewer():
    model = analysis(1, 1, dtype_bytes=0.5).model
    assert (model.activation_bytes, model.cache.dtype_bytes) == (2, 2)
    model = analysis(1, 1, dtype_bytes=4).model
    assert (model.activation_bytes, model.cache.dtype_bytes) == (4, 4)
    assert analysis(1, 1, kv_dtype_bytes=1).model.cache.dtype_bytes == 1
