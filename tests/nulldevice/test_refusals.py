"""What is refused as a whole, by the names of calls."""

import pytest

from pytest_attnmem.nulldevice.refusals import refusal, refusals

IPC = "nothing can be given to another process by CUDA IPC; give a copy on the host, x.cpu()"
ASYNC = "there is no cudaMallocAsync; leave backend:cudaMallocAsync out of PYTORCH_ALLOC_CONF"
GREEN = "there are no green contexts"


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("cuIpcOpenMemHandle_v2", IPC),
        ("cudaIpcGetEventHandle", IPC),
        ("cudaDeviceGetDefaultMemPool", ASYNC),
        ("cudaMallocAsync", ASYNC),
        ("cuGreenCtxCreate", GREEN),
        ("cuDeviceGetDevResource", GREEN),
        ("cudaX", ""),
        ("cudaMemcpyAsync", ""),
    ],
)
def test_a_call_tells_what_is_refused(call, reason):
    assert refusal(call) == reason


def test_calls_come_by_what_is_refused():
    calls = ["cudaIpcGetMemHandle", "cudaX", "cudaMallocAsync", "cudaIpcOpenMemHandle"]
    assert refusals(calls) == {IPC: [calls[0], calls[3]], ASYNC: [calls[2]]}
