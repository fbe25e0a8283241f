"""The plans of attention's operators against PyTorch's own CUDA code, event by event."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from recordings import VERSIONS

from pytest_attnmem.backends.simulated.attention import cudnn_ops
from pytest_attnmem.backends.simulated.attention.flash_ops import splits
from pytest_attnmem.backends.simulated.operators.op_rules import RULES, plan
from pytest_attnmem.backends.simulated.scratch.op_plan import OpCall
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import KNOWN, minor_version

from . import cases
from .recordings import Events, recorded

RECORDED = recorded("operators")
OPERATORS = {
    "_safe_softmax",
    *("_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward"),
    *("_flash_attention_forward", "_flash_attention_backward"),
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_efficient_attention_backward",
    *("_efficient_attention_forward", "_efficient_attention_backward"),
}


@pytest.fixture
def untrained():
    with torch.no_grad():
        yield


def plan_of(operator, arguments, device, deterministic=False, version=KNOWN[0]):
    """Returns the plan of a call on a device, and the sizes of its outputs."""
    name = f"aten.{operator}.default"
    results = getattr(torch.ops.aten, operator)(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    outputs = tuple(result for result in results if isinstance(result, torch.Tensor))
    profile = find_profile(device)
    steps = plan(OpCall(name, arguments, {}, outputs, profile, deterministic, version))
    return steps, [output.untyped_storage().nbytes() for output in outputs]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("device", RECORDED)
def test_the_events_are_the_recorded_ones(untrained, device, version):
    wrong = []
    for operator, case, events in recorded("operators", version)[device]:
        arguments = cases.arguments(operator, case, "meta")
        mode, rules = case.get("deterministic", False), minor_version(f"{version}.0")
        steps, sizes = plan_of(operator, arguments, device, mode, rules)
        events_seen = Events(find_profile(device), version)
        events_seen.follow(steps, sizes)
        if str(events_seen) != events:
            wrong.append((operator, case, events, str(events_seen)))
    assert wrong == []


def test_the_recordings_are_of_every_operator():
    assert {row[0] for row in RECORDED["A100-80GB"]} == OPERATORS
    assert {row[0] for row in RECORDED["T4"]} == {name for name in OPERATORS if "flash" not in name}
    ruled = {name for name, found in RULES.items() if ".attention." in found.module}
    assert {f"aten.{name}.default" for name in OPERATORS} == ruled - set(cudnn_ops.RULES)


@pytest.mark.parametrize(
    ("rows", "columns", "multiprocessors", "parts"),
    [
        (1, 1, 108, 1),  # a block of keys cannot be split
        (8 * 16, 1000, 108, 4),
        (8 * 16, 1000, 132, 2),
        (172, 100_000, 108, 5),
        (173, 100_000, 108, 1),  # four fifths of what runs at once
    ],
)
def test_keys_are_split_to_keep_a_device_busy(rows, columns, multiprocessors, parts):
    assert splits(rows, columns, 64, multiprocessors) == parts


@given(st.integers(1, 400), st.integers(1, 10**6), st.sampled_from((64, 128, 256)))
def test_there_are_no_more_splits_than_blocks_of_keys(rows, columns, d):
    block = {64: 256, 128: 128, 256: 64}[d]
    assert 1 <= splits(rows, columns, d, 108) <= min(128, -(-columns // block))


@pytest.mark.parametrize(
    ("operator", "case"),
    [
        ("_scaled_dot_product_efficient_attention", {"B": 65536, "N": 1, "H": 1}),
        ("_scaled_dot_product_efficient_attention_backward", {"B": 65536, "N": 1, "H": 1}),
        ("_flash_attention_forward", {"N": (7, 7), "M": (100, 7), "Hkv": 2}),
    ],
)
def test_a_call_that_is_not_modelled_has_no_plan(untrained, operator, case):
    steps, _ = plan_of(operator, cases.arguments(operator, case, "meta"), "A100-80GB")
    assert steps is None
