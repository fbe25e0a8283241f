"""A timeline adds up to the measured peak, however the window is divided."""

import gc
from contextlib import ExitStack, contextmanager

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.measurement.qkv_inputs import qkv
from pytest_attnmem.measurement.timeline import MOST


def naive(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


def inputs(device, **options):
    return qkv(1, 2, 64, 16, device=device, **options)


def forward(device, region):
    naive(*inputs(device))


def backward(device, region):
    q, k, v = inputs(device, requires_grad=True)
    naive(q, k, v).sum().backward()


def checkpointed(device, region):
    q, k, v = inputs(device, requires_grad=True)
    checkpoint(naive, q, k, v, use_reentrant=False, preserve_rng_state=False).sum().backward()


def regions(device, region):
    """Saves tensors in the first region, and frees them in the second."""
    q, k, v = inputs(device, requires_grad=True)
    with region("forward"):
        out = naive(q, k, v)
    with region("backward"):
        out.sum().backward()


def nested(device, region):
    with region("outer"):
        kept = torch.ones(300, device=device)
        with region("inner"):
            other = torch.ones(200, device=device) + 1
            del kept
            with region("innermost"):
                torch.ones(100, device=device)
        del other


def inputs_in_the_middle(device, region):
    kept = torch.ones(3000, device=device)
    for seed in range(3):
        q, k, v = inputs(device, seed=seed)
        out = naive(q, k, v)
        del q, k, v
    del kept
    return out


def long(device, region):
    with region("long"):
        kept = [torch.ones(n, device=device) for n in range(1, 2 * MOST)]
    for _ in range(MOST):
        kept.append(kept.pop(0) + 1)


def nothing(device, region):
    pass


PROGRAMS = (
    *(forward, backward, checkpointed, regions, nested, inputs_in_the_middle, long),
    nothing,
)
IN_REGIONS = {regions: 2, nested: 3, long: 1}


def seen(backend, program, trace, evidence=True):
    """Returns the measurements of a program and of its regions."""
    primed = PrimedBackend(open_backend(backend), 0, evidence)
    primed.backend.forget()
    windows = []

    @contextmanager
    def region(_):
        with primed.window() as opened:
            windows.append(opened)
            yield

    with ExitStack() as stack:
        windows.append(stack.enter_context(primed.window(trace=trace)))
        program(primed.backend.device, region)
    gc.collect()
    return [opened.measurement for opened in windows]


@pytest.mark.parametrize(("backend", "trace"), [("simulated", False), ("cpu", True)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_allocations_add_up_to_the_peak_and_to_the_end(program, backend, trace):
    measurements = seen(backend, program, trace)
    assert len(measurements) == 1 + IN_REGIONS.get(program, 0)
    for m in measurements:
        levels = m.timeline.levels()
        assert max([0, *levels]) == m.peak_bytes
        assert (levels[-1] if levels else 0) == m.retained_bytes


@pytest.mark.parametrize(("backend", "trace"), [("simulated", False), ("cpu", True)])
def test_inputs_and_earlier_tensors_are_not_listed(backend, trace):
    whole, first, second = seen(backend, regions, trace)
    # Saved tensors are allocated in forward's region; the output and its sum are freed at the end.
    scores = [span for span in whole.timeline.spans if span.held.shape == (2, 64, 64)]
    assert {span.held.op for span in scores} >= {"bmm"}
    assert all(span.held.nbytes > 0 for span in whole.timeline.spans)
    assert all(span.held.op != "randn" for span in whole.timeline.spans)
    assert all(span.held.nbytes > 0 for span in first.timeline.spans)
    gone = [span.held.nbytes for span in second.timeline.spans if span.held.nbytes < 0]
    assert gone == [-32768]  # softmax's output
    assert (
        second.timeline.note
        == "the run itself; 32.0 KiB from before was freed in it and is subtracted"
    )


def test_the_scratch_of_kernels_is_listed_where_the_device_has_it():
    (m,) = seen("simulated", backward, False)
    scratch = [span for span in m.timeline.spans if "(scratch)" in (span.held.op or "")]
    assert scratch
    assert all(span.freed_at is not None for span in scratch)


def test_held_tensors_are_alive_at_the_peak():
    (m,) = seen("simulated", backward, False)
    levels = m.timeline.levels()
    peak = levels.index(max(levels))
    alive = [
        span.held
        for span in m.timeline.spans
        if span.allocated_at <= peak and (span.freed_at is None or span.freed_at > peak)
    ]
    assert sorted(alive, key=lambda held: -held.nbytes) == [*m.held]


def test_a_long_window_is_shortened(capsys):
    whole, region = seen("cpu", long, True)
    assert len(whole.timeline.spans) < MOST + 40
    assert whole.timeline.note.endswith(" smallest are added up")
    assert region.timeline.note.endswith(" smallest are added up")


@pytest.mark.parametrize(("backend", "trace"), [("simulated", False), ("cpu", True)])
def test_a_window_without_evidence_has_no_timeline(backend, trace):
    (m,) = seen(backend, forward, trace, evidence=False)
    assert (m.timeline, m.snapshots) == (None, ())


def test_a_recorder_of_counters_has_no_timeline():
    (m,) = seen("cpu", forward, trace=False)
    assert m.timeline is None
