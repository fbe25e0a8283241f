"""The lines about the counters of the runtime."""

import pytest

from pytest_attnmem.nulldevice.counts import remarks, unanswered


@pytest.mark.parametrize(
    ("calls", "reads", "lines"),
    [
        ({}, 0, []),
        (
            {"cudaX": 2, "cuY": 1},
            0,
            ["attnmem: the null device does not know these calls: cudaX (2), cuY (1)"],
        ),
        (
            {"cudaStreamBeginCapture": 1},
            0,
            [
                "attnmem: the program captures a CUDA graph, which the null device cannot: turn"
                " CUDA graphs off in the program, as torchtitan does with"
                " --training.disable_cuda_graphs",
                "attnmem: the null device does not know these calls: cudaStreamBeginCapture (1)",
            ],
        ),
        (
            {
                "cudaX": 2,
                "cufftXtExec": 4,
                "cusolverDnCgetrf_bufferSize": 1,
                "cusolverDnXgeev_bufferSize": 2,
            },
            0,
            [
                "attnmem: no number here has the workspaces of cuFFT (4) and cuSOLVER (3): their"
                " sizes are known on a GPU alone",
                "attnmem: the null device does not know these calls: cudaX (2)",
            ],
        ),
        (
            {"cudaX": 2, "cudaIpcGetMemHandle": 1, "cudaIpcOpenMemHandle": 4},
            0,
            [
                "attnmem: on the null device nothing can be given to another process by CUDA IPC;"
                " give a copy on the host, x.cpu()",
                "attnmem: the null device does not know these calls: cudaX (2)",
            ],
        ),
        ({}, 3, ["attnmem: reads of device memory that returned zeros: 3"]),
    ],
)
def test_what_was_counted_is_told_in_a_line_each(calls, reads, lines):
    device = {"devices": "H100", "unknown_calls": calls, "device_reads": reads}
    assert [*remarks(device)] == lines
    assert [*unanswered(device)] == [line for line in lines if "returned zeros" not in line]
