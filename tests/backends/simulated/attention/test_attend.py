"""``attend`` against ``scaled_dot_product_attention`` on the null device."""

import itertools

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

from pytest_attnmem.backends.simulated.attention.sdpa import (
    Attention,
    scaled_dot_product_attention,
    sdp_params,
)
from pytest_attnmem.backends.simulated.attention.select_backend import select_backend
from pytest_attnmem.profiles import find_profile

from . import cases
from .recordings import recorded
from .tracked import Tracked

RECORDED = recorded("calls")


def attend(*inputs, profile, **others):
    return scaled_dot_product_attention(Attention(*inputs, **others), profile)


def in_any_order(events):
    """Returns the events with consecutive frees sorted, because their order does not matter."""
    if events is None:
        return None
    runs = ([*run] for _, run in itertools.groupby(events.split(), key=lambda word: word[0]))
    return [sorted(run) if run[0][0] == "-" else run for run in runs]


def simulated(case, backend, device):
    """Events of forward, and of backward where a gradient is wanted."""
    profile = find_profile(device)
    given, keywords = cases.call(case, "cpu")
    with Tracked(profile) as tracked:
        tracked.add_inputs(*(one for one in given if isinstance(one, torch.Tensor)))
        with sdpa_kernel([getattr(SDPBackend, cases.BACKENDS[backend])]):
            out = attend(*given, **keywords, profile=profile)
        forward = str(tracked.events)
        if not out.requires_grad:
            return forward, None
        grad = torch.empty_like(out)
        tracked.start_over()
        torch.autograd.backward(out, grad)
        return forward, str(tracked.events)


@pytest.mark.parametrize("device", RECORDED)
def test_the_events_are_the_recorded_ones(few, device):
    with FakeTensorMode():
        for case, backend, *recorded_events in few(RECORDED[device], lambda row: row[1]):
            events = simulated(case, backend, device)
            for mine, real in zip(events, recorded_events, strict=True):
                assert in_any_order(mine) == in_any_order(real), (case, backend)


A100, H100 = find_profile("A100-80GB"), find_profile("H100")


def empty(*shape, dtype=torch.float16, **others):
    return torch.empty(shape, dtype=dtype, **others)


def only(*backends):
    return sdpa_kernel([getattr(SDPBackend, backend) for backend in backends])


def selected(profile, **others):
    """Returns the backend selected for a plain call."""
    query = empty(2, 4, 256, 64)
    return select_backend(sdp_params(Attention(query, query, query, **others), profile))


def test_the_selected_backend_is_reported():
    with FakeTensorMode():
        mask = empty(256, 256)
        choice = selected(A100, attn_mask=mask)
        assert (choice.backend, dict(choice.reasons)) == ("efficient", {"flash": "there is a mask"})
        assert selected(H100).backend == "cudnn"
        with only("MATH"):
            assert dict(selected(A100).reasons) == {
                "flash": "switched off",
                "efficient": "switched off",
            }


def test_cudnn_is_deprioritized_by_the_environment(monkeypatch):
    monkeypatch.setenv("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")
    with FakeTensorMode():
        assert selected(H100).backend == "flash"


@pytest.mark.parametrize(
    ("backends", "given", "others", "message"),
    [
        (("FLASH_ATTENTION",), {"mask": "row"}, {}, "No available kernel. Aborting execution."),
        ((), {}, {}, "No viable backend for scaled_dot_product_attention was found."),
        (
            ("MATH",),
            {"mask": "row"},
            {"is_causal": True},
            "Explicit attn_mask should not be set when is_causal=True",
        ),
        (
            ("MATH",),
            {"Hkv": 3},
            {"enable_gqa": True},
            "Number of heads in key and value must divide the number of heads in",
        ),
        (("MATH",), {"Hkv": 3}, {}, "at non-singleton dimension 1"),
    ],
)
def test_an_impossible_call_raises_pytorchs_error(backends, given, others, message):
    with FakeTensorMode(), only(*backends):
        given = cases.inputs(given, "cpu")
        with pytest.raises(RuntimeError, match=message):
            attend(*given, profile=A100, **others)


@pytest.mark.parametrize(
    ("key", "mask", "message"),
    [
        (torch.float32, None, "Expected query, key, and value to have the same dtype"),
        (torch.float16, torch.int64, "Expected attn_mask dtype to be bool or float"),
        (torch.float16, torch.float32, "invalid dtype for bias - should match query's dtype"),
    ],
)
def test_dtypes_that_do_not_match_are_refused(key, mask, message):
    with FakeTensorMode():
        query, key = empty(1, 2, 8, 64), empty(1, 2, 8, 64, dtype=key)
        mask = None if mask is None else empty(8, 8, dtype=mask)
        with pytest.raises(RuntimeError, match=message):
            attend(query, key, key, mask, profile=A100)


@pytest.mark.parametrize(
    ("shape", "others"),
    [
        ((2, 4, 12, 8), {}),
        ((2, 4, 12, 8), {"scale": 0.3}),
        ((2, 4, 12, 8), {"scale": -0.3}),
        ((12, 8), {}),
        ((2, 4, 12, 8), {"dropout_p": 1.0}),
    ],
)
@pytest.mark.parametrize("kind", [None, "causal", torch.bool, torch.float32])
def test_the_math_backend_computes_attention(shape, others, kind):
    query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
    mask = None if kind in (None, "causal") else torch.randn(12, 12).to(kind).tril()
    others = {**others, "is_causal": kind == "causal"}
    with only("MATH"):
        out = attend(query, key, value, mask, profile=A100, **others)
        expected = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, mask, **others
        )
    torch.testing.assert_close(out, expected)
    grads = (torch.autograd.grad(one.sum(), (query, key, value)) for one in (out, expected))
    for mine, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_half_precision_may_be_accumulated_unwidened():
    query = torch.randn(1, 2, 8, 8, dtype=torch.float16)
    allowed = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    events = {}
    for allow in (False, True):
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(allow)
        try:
            with only("MATH"), FakeTensorMode(allow_non_fake_inputs=True), Tracked(A100) as tracked:
                tracked.add_inputs(query)
                attend(query, query, query, profile=A100)
                events[allow] = str(tracked.events).split()
        finally:
            torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(allowed)
    assert events[False][:3] == ["+512"] * 3
    assert events[True][:2] == ["+256"] * 2
    assert "+512" not in events[True]
