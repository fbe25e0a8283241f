"""What the null device lacks, by the error that PyTorch raises there."""

import pytest

from pytest_attnmem.plugin import null_errors

TEXT = "CUDA error: operation not supported\nSearch for `cudaErrorNotSupported' in the manual"


@pytest.mark.parametrize(
    ("place", "missing"),
    [
        ("/site/torch/cuda/graphs.py", "no CUDA graph can be captured"),
        (
            "/site/torch/multiprocessing/reductions.py",
            "no tensor can be given to another process; give a copy on the host, x.cpu()",
        ),
    ],
)
def test_what_is_missing_depends_on_where_it_was_asked_for(monkeypatch, place, missing):
    monkeypatch.setattr(null_errors, "present", lambda: "A100-80GB")
    with pytest.raises(RuntimeError) as raised:
        exec(compile("raise RuntimeError(TEXT)", place, "exec"), {"TEXT": TEXT})
    assert null_errors.missing_on_null(raised.value) == f"on null:A100-80GB {missing}"


def test_on_another_device_nothing_is_missing():
    assert null_errors.missing_on_null(RuntimeError(TEXT)) == ""
