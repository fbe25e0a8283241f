"""What the null device lacks, by the error that PyTorch raises there."""

import pytest

from pytest_attnmem.plugin import endings

TEXT = "CUDA error: operation not supported\nSearch for `cudaErrorNotSupported' in the manual"


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        ("cudaStreamBeginCapture", "no CUDA graph can be captured"),
        (
            "cudaIpcGetMemHandle",
            "nothing can be given to another process by CUDA IPC; give a copy on the host, x.cpu()",
        ),
        ("cusparseLtInit", "there is no cuSPARSELt, which multiplies semi-structured matrices"),
        ("cusparseSpMM_bufferSize", "there is no cuSPARSE: its scratch is known only on a GPU"),
    ],
)
def test_what_is_missing_is_what_the_last_refused_call_asked_for(monkeypatch, call, missing):
    monkeypatch.setattr(endings, "present", lambda: "A100-80GB")
    monkeypatch.setattr(endings, "last_unknown_call", lambda: call)
    assert endings.missing_on_null(RuntimeError(TEXT)) == f"on null:A100-80GB {missing}"


def test_on_another_device_nothing_is_missing():
    assert endings.missing_on_null(RuntimeError(TEXT)) == ""
