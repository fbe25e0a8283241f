"""The table of a sweep, and its CSV."""

import csv
from io import StringIO

from pytest_attnmem.measurement.peak_components import Component
from pytest_attnmem.sweep.results import ERROR, OOM
from pytest_attnmem.sweep.text_table import decompositions, render, to_csv

MIB = 1 << 20


def test_the_table(row, sweep):
    made = sweep(
        row("flash", 64, before=1, peak=3, forward_ms=0.126, backward_ms=12),
        row("flash", 128, peak=20, status=OOM, reason="needs 2.0 GiB more in the forward pass"),
        row("flash", 256, by="by growth", before=4, peak=5),
        row("linear", 64, status=ERROR, by="", reason="it broke"),
    )
    lines = render(made)
    assert lines[2].split()[3:5] == ["forward", "ms"]
    assert lines[0] == "forward and backward, B=8 H=1 float32, simulated:GTX 1080, 8.0 GiB"
    cells = [line.split(maxsplit=8) for line in lines[4:8]]
    assert cells == [
        ["flash", "16", "64", "0.13", "12.00", "1.0", "3.0", "ok"],
        ["flash", "16", "128", "-", "-", "-", "-", "OOM",
         "needs 2.0 GiB more in the forward pass; the peak would be 20.0 MiB"],
        ["flash", "16", "256", "-", "-", "4.0", "5.0", "ok", "by growth"],
        ["linear", "16", "64", "-", "-", "-", "-", "error", "it broke"],
    ]  # fmt: skip
    assert lines[8:] == [
        "",
        "by growth: too long to simulate; the exact polynomial through shorter lengths",
    ]


def test_columns_that_no_row_fills_are_left_out(row, sweep):
    lines = render(sweep(row("flash", 64, before=1, peak=3), row("flash", 128, peak=4)))
    assert lines[2:] == [
        "kernel      d    N    before backward MiB    peak MiB  status",
        "--------  ---  ---  ---------------------  ----------  --------",
        "flash      16   64                    1.0         3.0  ok",
        "flash      16  128                      -         4.0  ok",
        "",
    ]


def test_the_notes(row, sweep):
    edges = (
        {"kernel": "a", "d": 8, "N": 12345, "peak_bytes": MIB, "reserved_bytes": 2 * MIB},
        {"kernel": "b", "d": 8, "N": 3, "peak_bytes": MIB, "reserved_bytes": None},
        {"kernel": "c", "d": 8, "N": None, "reason": "not even N=1 fits"},
    )
    rows = [row("textbook", 64, workspace_bytes=MIB), row("ring:4", 64, by="by the model")]
    _, notes = "\n".join(render(sweep(*rows, complete=False, longest=edges))).split(
        "by the model\n\n"
    )
    assert notes.splitlines() == [
        "memory is all allocated memory, 1.0 MiB of workspaces included",
        "textbook is attention with its softmax written out and a float causal mask; the bundled"
        " kernel standard works in place",
        "by the model: the memory of one rank, from the formulas of the kernel's memory model",
        "longest that fits: a, d=8: N=12,345, peak 1.0 MiB, reserved 2.0 MiB",
        "longest that fits: b, d=8: N=3, peak 1.0 MiB",
        "longest that fits: c, d=8: not even N=1 fits",
        "interrupted: 2 rows done; --resume continues",
    ]


def test_decompositions(row, sweep):
    parts = (
        Component("scores", 2 * MIB, 1, "O(B·N²)", "4*B*N^2"),
        Component("inputs q, k, v", MIB, 3, "O(B·N·d)", "12*B*N*d"),
    )
    made = sweep(
        row("a", 64, peak=3, components=parts),
        row("a", 128),
        row("a", 256, peak=3, components=parts, status=OOM),
    )
    lines = decompositions(made)
    assert lines[:7] == [
        "",
        "a, d=16 N=64: peak",
        "component          size    tensors  grows as    bytes",
        "--------------  -------  ---------  ----------  -----------",
        "scores          2.0 MiB          1  O(B·N²)     4*B*N^2",
        "inputs q, k, v  1.0 MiB          3  O(B·N·d)    12*B*N*d",
        "peak            3.0 MiB                         3,145,728 B",
    ]
    assert lines[8] == "a, d=16 N=256: peak with enough memory (OOM here)"
    assert len(lines) == 14


def test_csv(row, sweep):
    made = sweep(row("a", 64, before=1, peak=2, forward_ms=0.5), row("b", 64, reason='a "b", c'))
    first, second = csv.DictReader(StringIO(to_csv(made)))
    assert (first["kernel"], first["before_bytes"], first["forward_ms"]) == ("a", str(MIB), "0.5")
    assert (second["peak_bytes"], second["reason"], second["N"]) == ("", 'a "b", c', "64")
