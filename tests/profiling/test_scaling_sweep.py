"""The notebook's sweep: rows of measurements with the theory, and out of memory."""

import _thread
import csv
from dataclasses import replace
from importlib import import_module

import pytest
import torch

from pytest_attnmem.errors import AttnMemError, BudgetError
from pytest_attnmem.kernels.standard import KERNEL as STANDARD
from pytest_attnmem.profiling import (
    Peak,
    ScalingRow,
    linear_attention_bidir,
    linear_attention_causal,
    memory_scaling,
    save_csv,
    theoretical_memory,
)

SCALING = import_module("pytest_attnmem.profiling.scaling_sweep")
ROW = ScalingRow(
    512,
    96,
    {"standard": Peak(None, 4000, "needs 1.0 KiB more"), "linear": Peak(300, 200)},
)


@pytest.fixture(scope="module")
def rows():
    return memory_scaling([512, 4096, 16384], backend="simulated:GTX 1080")


def test_running_out_of_memory_is_a_row_and_theory_is_what_was_measured(rows):
    assert [row.seq_len for row in rows] == [512, 4096, 16384]
    standard = [row.peaks["standard"] for row in rows]
    assert [peak.measured_bytes is None for peak in standard] == [False, False, True]
    assert standard[2].out_of_memory.startswith("needs 16.0 GiB more at standard.py:")
    assert [peak.out_of_memory for peak in standard[:2]] == [None, None]
    # The next shape is measured, and nothing of the failed one is left.
    causal = [row.peaks["linear-causal"] for row in rows]
    assert causal[2].measured_bytes == 4_497_342_464
    for peak in (*standard[:2], *causal):
        assert peak.measured_bytes == peak.theoretical_bytes


def test_columns_have_the_notebooks_names_and_the_theory_above_the_inputs(rows):
    for row in rows:
        theory = theoretical_memory(4, 8, row.seq_len, 64)
        assert row.input_bytes == theory["inputs"]
        columns = row.columns()
        for name in ("standard", "linear_bidir", "linear_causal"):
            above = theory[f"{name}_peak"] - theory["inputs"]
            assert columns[f"{name}_theoretical_bytes"] == above
    assert [*columns] == [
        *("seq_len", "input_memory_bytes"),
        *("standard_memory_bytes", "linear_bidir_memory_bytes", "linear_causal_memory_bytes"),
        *("standard_theoretical_bytes", "linear_bidir_theoretical_bytes"),
        "linear_causal_theoretical_bytes",
    ]
    (row,) = memory_scaling([128], kernels=["sdpa-flash", "flash"], backend="simulated:L4")
    assert [*row.peaks] == ["sdpa-flash", "flash"]
    assert "sdpa_flash_memory_bytes" in row.columns()


def test_on_the_cpu_the_numbers_are_the_same():
    sizes = {"batch_size": 1, "num_heads": 2, "head_dim": 16, "dtype": torch.float32}
    (row,) = memory_scaling([256], **sizes, backend="cpu")
    assert row.peaks["standard"] == Peak(1_081_344, 1_081_344)
    assert row.peaks["linear-causal"] == Peak(624_640, 624_640)


def test_other_errors_than_out_of_memory_are_raised(monkeypatch):
    def faulty(q, k, v, *, causal):
        raise RuntimeError("a fault of the kernel's own")

    kernel = replace(STANDARD, attention=faulty)
    monkeypatch.setattr(SCALING, "kernel_named", lambda name: kernel)
    with pytest.raises(RuntimeError, match="a fault of the kernel's own"):
        memory_scaling([16], kernels=["standard"], backend="simulated:T4")


def test_what_is_not_measured_is_no_number(monkeypatch):
    def threaded(q, k, v, *, causal):
        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(lambda: (q.clone(), done.release()), ())
        done.acquire()

    kernel = replace(STANDARD, attention=threaded)
    monkeypatch.setattr(SCALING, "kernel_named", lambda name: kernel)
    with pytest.raises(AttnMemError, match="memory is not measured on cpu: a thread was started"):
        memory_scaling([16], kernels=["standard"], backend="cpu")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"seq_lengths": []}, "memory_scaling needs at least one of seq_lengths, got none"),
        ({"seq_lengths": [1.5]}, "memory_scaling needs seq_len to be a whole number >= 1, got 1.5"),
        ({"num_heads": 0}, "memory_scaling needs num_heads to be a whole number >= 1, got 0"),
        (
            {"kernels": ["linear_bidir"]},
            "unknown kernel 'linear_bidir'; did you mean 'linear'? expected one of block-sparse,",
        ),
        ({"kernels": [1]}, "unknown kernel 1; expected one of block-sparse, "),
        ({"dtype": "int8"}, "memory_scaling needs a floating dtype, such as torch.float16"),
    ],
)
def test_what_cannot_be_swept_is_refused(arguments, text):
    with pytest.raises(BudgetError) as caught:
        memory_scaling(**{"seq_lengths": [16], **arguments})
    assert str(caught.value).startswith(text)


def test_the_csv_has_a_line_a_length_and_says_where_memory_ran_out(tmp_path):
    save_csv([ROW, replace(ROW, seq_len=1024)], tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text() == (
        "seq_len,input_memory_bytes,standard_memory_bytes,linear_bidir_memory_bytes,"
        "standard_theoretical_bytes,linear_bidir_theoretical_bytes\n"
        "512,96,OOM,300,4000,200\n"
        "1024,96,OOM,300,4000,200\n"
    )


def test_the_csv_reads_back(tmp_path, rows):
    save_csv(rows, str(tmp_path / "rows.csv"))
    with open(tmp_path / "rows.csv", encoding="utf-8", newline="") as file:
        read = [*csv.DictReader(file)]
    assert read == [{name: str(size) for name, size in row.columns().items()} for row in rows]


@pytest.mark.parametrize(
    ("given", "name", "why"),
    [
        ([], "rows.csv", "there is no row"),
        ([ROW, replace(ROW, peaks={})], "rows.csv", "the rows have different kernels"),
        ([ROW], "none/rows.csv", "No such file or directory"),
    ],
)
def test_what_cannot_be_written_is_said_in_a_line(tmp_path, given, name, why):
    with pytest.raises(AttnMemError) as caught:
        save_csv(given, tmp_path / name)
    assert str(caught.value) == f"cannot write {tmp_path / name}: {why}"


@pytest.mark.parametrize("eps", [1e-6, 0.5])
@pytest.mark.parametrize(
    ("attention", "causal"), [(linear_attention_bidir, False), (linear_attention_causal, True)]
)
def test_linear_attention_is_the_sum_over_features(attention, causal, eps):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 7, 4, dtype=torch.float64) for _ in range(3))
    phi_q, phi_k = (torch.nn.functional.elu(one) + 1 for one in (q, k))
    weights = phi_q @ phi_k.mT
    weights = weights.tril() if causal else weights
    expected = weights @ v / (weights.sum(-1, keepdim=True) + eps)
    torch.testing.assert_close(attention(q, k, v, eps), expected)
