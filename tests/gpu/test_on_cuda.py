"""The CUDA backend against plain arithmetic, on a device."""

import pytest
import torch

from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.units import parse_size

MIB = parse_size("1 MiB")


def rounded(nbytes):
    return -(-nbytes // 512) * 512


def measured(cuda, body, metric="peak"):
    with window(cuda, metric) as seen:
        body()
    return seen.measurement


def test_requested_bytes_are_those_asked_for_and_allocated_ones_are_rounded(cuda):
    m = measured(cuda, lambda: torch.empty(1001, dtype=torch.uint8, device=cuda.device))
    assert (m.peak_bytes, m.allocated_bytes, m.retained_bytes) == (1001, rounded(1001), 0)
    assert (m.allocations, m.unmeasured) == (1, None)


def test_a_peak_of_earlier_is_not_seen(cuda):
    torch.empty(100 * MIB, dtype=torch.uint8, device=cuda.device)
    m = measured(cuda, lambda: torch.empty(MIB, dtype=torch.uint8, device=cuda.device))
    assert m.peak_bytes == MIB


def test_softmax_attention_forward_is_two_score_matrices_and_the_output(cuda):
    B, H, N, d = 2, 4, 512, 64
    q, k, v = (torch.randn(B, H, N, d, device=cuda.device) for _ in range(3))

    def body():
        scores = q @ k.mT
        weights = scores.softmax(-1)
        return weights @ v

    body()
    assert measured(cuda, body).peak_bytes == 2 * B * H * N * N * 4 + B * H * N * d * 4


def test_fifty_runs_give_one_number(cuda):
    x = torch.randn(512, 512, device=cuda.device)
    numbers = {measured(cuda, lambda: (x @ x).softmax(-1)).peak_bytes for _ in range(50)}
    assert len(numbers) == 1


def test_nested_windows_share_the_counters(cuda):
    with window(cuda) as outer:
        a = torch.empty(MIB, dtype=torch.uint8, device=cuda.device)
        with window(cuda) as inner:
            torch.empty(2 * MIB, dtype=torch.uint8, device=cuda.device)
        del a
    assert inner.measurement.peak_bytes == 2 * MIB
    assert (outer.measurement.peak_bytes, outer.measurement.retained_bytes) == (3 * MIB, 0)


def test_reserved_begins_with_an_empty_cache(cuda):
    def body():
        torch.empty(100 * MIB, dtype=torch.uint8, device=cuda.device)

    body()
    assert measured(cuda, body, "reserved").reserved_bytes == 100 * MIB


def test_out_of_memory_says_what_was_asked_for(cuda):
    with pytest.raises(torch.OutOfMemoryError), window(cuda) as seen:
        torch.empty(2**50, dtype=torch.uint8, device=cuda.device)
    assert seen.measurement.out_of_memory.startswith("tried to allocate ")


def test_a_replayed_graph_allocates_nothing(cuda):
    x = torch.ones(1000, device=cuda.device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x * 2
    assert measured(cuda, graph.replay).allocations == 0


def test_what_is_held_is_named_scratch_included(cuda):
    x = torch.ones(64, 64, device=cuda.device, requires_grad=True)
    x.softmax(-1).sum().backward()
    with window(cuda) as first:
        x.softmax(-1).sum().backward()
    with window(cuda, trace=True, evidence=True) as second:
        x.softmax(-1).sum().backward()
    assert second.measurement.peak_bytes == first.measurement.peak_bytes
    assert second.measurement.peak_bytes == max(second.measurement.timeline.levels())
    assert {"segments", "device_traces"} <= set(second.measurement.snapshots[0])
    assert second.measurement.peak_bytes == sum(held.nbytes for held in second.measurement.held)
    (output,) = (held for held in second.measurement.held if held.op == "softmax")
    assert (output.nbytes, output.shape, output.function) == (
        64 * 64 * 4,
        (64, 64),
        "test_what_is_held_is_named_scratch_included",
    )
    assert "softmax_backward_data (scratch)" in {held.op for held in second.measurement.held}
