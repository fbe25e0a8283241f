"""cuDNN's attention against the plans of cuDNN itself, on the null device."""

import pytest
import torch
from recordings import INSTALLED, VERSIONS

from pytest_attnmem.backends.simulated.attention.cudnn_ops import (
    AttentionCall,
    backward_bytes,
    forward_bytes,
)
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import minor_version

from . import cudnn_cases
from .recordings import recorded

DEVICES = ("H100", "B200")
CALLS = cudnn_cases.calls()
SEEDS, HALF, FLOAT = 16, 2, 4  # bytes


def described(call, device, version):
    profile = find_profile(device)
    return AttentionCall(
        profile.compute_capability,
        profile.multiprocessors,
        minor_version(f"{version}.0"),
        *(call[name] for name in ("B", "H", "Hkv", "N", "M", "d", "dv")),
        biased=bool(call["mask"]),
        causal=call["causal"],
        drops=call["dropout"] > 0,
        trains=call["train"],
    )


def workspaces(call, forward, backward):
    """Returns the bytes of a recorded call beyond its tensors."""
    B, H, heads, N, M, d, dv = (call[name] for name in ("B", "H", "Hkv", "N", "M", "d", "dv"))
    results = HALF * B * H * N * dv + SEEDS + (FLOAT * B * H * N if call["train"] else 0)
    if call["mask"].startswith("b"):  # is made into numbers
        shapes = {"NM": N * M, "1NM": B * N * M, "BHNM": B * H * N * M, "B11M": B * M}
        results += HALF * shapes[call["mask"][1:]]
    gradients = HALF * (B * H * N * d + B * heads * M * (d + dv))
    return forward - results, None if backward is None else backward - gradients


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("device", DEVICES)
def test_the_workspaces_are_those_of_the_plans(device, version):
    wrong, answered = [], 0
    for call, row in zip(CALLS, recorded("cudnn", version)[device], strict=True):
        if row in (None, "no plan"):
            continue
        asked, (forward, _, backward, _) = described(call, device, version), row
        found = forward_bytes(asked), backward_bytes(asked) if call["train"] else None
        for mine, planned in zip(found, workspaces(call, forward, backward), strict=True):
            answered += mine is not None
            if mine not in (None, planned):
                wrong.append((call, mine, planned))
    assert wrong == []
    assert answered >= (700 if device == "H100" else 400)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.filterwarnings("ignore:.*(cuDNN|cudnn)")
def test_the_peaks_are_the_recorded_ones(run, few, device):
    rows = zip(CALLS, recorded("cudnn")[device], strict=True)
    known = [(call, row) for call, row in rows if is_known(call, row, device)]
    known = few(known, lambda one: (one[0]["mask"], one[0]["train"]))
    peaks = []
    run(lambda: peaks.extend(cudnn_cases.peaks(call) for call, _ in known), device)
    wrong = [(*one, mine) for one, mine in zip(known, peaks, strict=True) if mine != one[1]]
    assert wrong == []


def is_known(call, row, device):
    if row is None:
        return True
    if row == "no plan":  # the program fails on a device
        return False
    asked = described(call, device, INSTALLED)
    found = forward_bytes(asked), backward_bytes(asked) if call["train"] else 0
    return None not in found


@pytest.mark.parametrize(
    ("device", "queries", "keys", "problem"),
    [
        ("H100", 128, 4096, None),
        ("H100", 1, 4096, None),
        ("B200", 128, 2048, None),
        (
            "B200",
            1,
            4096,
            "no model of aten._scaled_dot_product_cudnn_attention.default;"
            " use backend='null' or 'cuda'",
        ),
    ],
)
def test_a_plan_that_is_not_known_is_not_measured(run, device, queries, keys, problem):
    def attend():
        query = torch.empty(1, 2, queries, 64, device="cuda", dtype=torch.float16)
        key = torch.empty(1, 2, keys, 64, device="cuda", dtype=torch.float16)
        torch.nn.functional.scaled_dot_product_attention(query, key, key)

    if INSTALLED == "2.14" and queries == 1:  # PyTorch 2.14 takes flash for one query
        problem = None
    assert run(attend, device).unmeasured == problem


def test_a_device_that_nobody_asked_has_no_plan():
    call = described(CALLS[0], "H100", INSTALLED)._replace(capability=(10, 3))
    assert forward_bytes(call) is None
    assert backward_bytes(call) is None
