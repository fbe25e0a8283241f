"""The null backend without a null device, and the problems it finds in the runtime's counts."""

import pytest
from unavailable import refusal

from pytest_attnmem.backends.null import Null, untrue
from pytest_attnmem.backends.registry import backend_of, open_backend
from pytest_attnmem.nulldevice.refusals import unplanned


@pytest.mark.parametrize("name", ["null", "null:H100"])
def test_a_process_that_was_not_started_under_it_gets_the_command(name):
    assert refusal(open_backend, name) == (
        "backend 'null' must be there before torch is imported: start with pytest"
        f" --attnmem-backend {name}, or attnmem run"
    )


def test_larger_sizes_are_not_free_though_nothing_is_computed():
    assert (Null.computes, Null.larger_is_free) == (True, False)


SCRATCH = "takes scratch that is known on a GPU alone"
OWN = "PyTorch's own can be had with torch.backends.cudnn.flags(enabled=False)"
OUTSIDE = "keep it out of the window"
NORM = f"cuDNN's batch normalisation {SCRATCH}; {OWN}"
OLDER = "the installed cuDNN cannot plan without a GPU; cuDNN 9.8 and newer can"
ZEROS = (
    "it gives zeros, and a size or a branch that depends on them is wrong; read values after the"
    " window"
)
GRAPH = "a CUDA graph was captured, which the null device cannot"


@pytest.mark.parametrize(
    ("calls", "reads", "line", "reason"),
    [
        ({}, 0, "", None),
        ({"cudnnGetBatchNormalizationBackwardExWorkspaceSize": 2}, 1, "a.py:1", NORM),
        ({"cudnnCreate": 2}, 0, "", OLDER),
        ({"cudnnNew": 2, "cudaX": 1}, 0, "", "the null device does not know cudnnNew"),
        ({"cudaStreamBeginCapture": 1}, 0, "", GRAPH),
        ({"cudaGraphLaunch": 1, "cudaX": 1}, 0, "", GRAPH),
        ({"cudaX": 1, "cuY": 3}, 5, "a.py:1", "the null device does not know cudaX, cuY"),
        (
            {"cudaX": 1, "cuGreenCtxCreate": 3},
            0,
            "",
            "on the null device there are no green contexts",
        ),
        ({}, 1, "", f"the device was read once: {ZEROS}"),
        ({}, 1, "a.py:1", f"the device was read once, at a.py:1: {ZEROS}"),
        ({}, 3, "a.py:1", f"the device was read 3 times, first at a.py:1: {ZEROS}"),
    ],
)
def test_calls_and_reads_that_make_numbers_untrue_are_named(calls, reads, line, reason):
    assert untrue(calls, reads, line) == reason


@pytest.mark.parametrize(
    ("functions", "what", "remedy"),
    [
        ("cudnnRNNForward cudaX", "cuDNN's recurrent network", OWN),
        ("cudnnDropoutGetStatesSize cudaX", "cuDNN's recurrent network", OWN),
        ("cudnnCTCLoss_v8 cudaX", "cuDNN's CTC loss", OWN),
        (
            "cudnnConvolutionForward cudaX",
            *("cuDNN's older convolution", "unset TORCH_CUDNN_V8_API_DISABLED"),
        ),
        ("cudaX cusolverDnSgeqrf_bufferSize", "cuSOLVER's geqrf", OUTSIDE),
        ("cusolverDnXsyevBatched_bufferSize cudnnRNNForward", "cuSOLVER's syevBatched", OUTSIDE),
        ("cufftXtExec", "cuFFT", OUTSIDE),
    ],
)
def test_what_a_library_plans_on_a_gpu_alone_is_named(functions, what, remedy):
    assert unplanned(functions.split()) == f"{what} {SCRATCH}; {remedy}"


@pytest.mark.parametrize(
    ("device", "running", "backend"),
    [
        ("cuda:1", "auto", "cuda:1"),
        ("cuda:1", "null:H100", "null:1"),
        ("cuda", "null:H100", "null:H100"),
        ("cpu", "null", "cpu"),
        ("xpu:1", "null", "accelerator:xpu:1"),
    ],
)
def test_a_device_of_cuda_is_the_null_one_where_that_runs(device, running, backend):
    assert backend_of(device, running) == backend
