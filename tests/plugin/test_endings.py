"""The skip of a test that asked for what nobody can know here."""

import pytest

from pytest_attnmem.errors import UnknownValue
from pytest_attnmem.plugin import endings
from pytest_attnmem.plugin.endings import NotKnown, skipped_if_unknown

#: What PyTorch's JIT makes of an error in an operator.
BY_JIT = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
    if bool((y>2).any()): y=y.relu()*3
       ~~~~ <--- HERE
{}: a value was read at test_it.py:3 that is not known: a kernel wrote it

At:
  reads.py(193): _known
"""


@pytest.mark.parametrize(
    "kind",
    [
        "RuntimeError: UnknownValue",
        "RuntimeError: CannotSimulate",
        "pytest_attnmem.errors.UnknownInWorker",  # as another process tells it
    ],
)
def test_an_error_of_which_the_text_alone_is_left_is_a_skip_of_one_line(kind):
    found = skipped_if_unknown(RuntimeError(BY_JIT.format(kind)))
    assert isinstance(found, NotKnown)
    assert found.msg == "a value was read at test_it.py:3 that is not known: a kernel wrote it"


def test_a_cause_is_found_under_another_error():
    error = KeyError("x")
    error.__cause__ = UnknownValue("nobody knows")
    found = skipped_if_unknown(error)
    assert isinstance(found, NotKnown)
    assert found.msg == "nobody knows"


@pytest.mark.parametrize(
    "error",
    [RuntimeError(BY_JIT.format("RuntimeError: ValueError")), ValueError("x")],
)
def test_an_error_of_the_program_stays(error):
    assert skipped_if_unknown(error) is error


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
