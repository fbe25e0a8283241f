"""The report in Markdown: every sentence from the rows."""

import re

from pytest_attnmem.measurement.peak_components import Component
from pytest_attnmem.sweep.markdown_report import render
from pytest_attnmem.sweep.results import ERROR, OOM

MIB = 1 << 20
SCORES = Component("scores", 40 * MIB, 6, "O(B·N²)", "24*B*N^2")


def section(text, name):
    (found,) = (part for part in text.split("\n## ") if part.startswith(name))
    return found.splitlines()


def cells(line):
    """The cells of a row; an escaped bar is part of a cell."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_its_sections(row, sweep):
    text = render(sweep(row("textbook", 64, before=1, peak=2), row("textbook", 256, before=9)))
    assert text.startswith("# Attention benchmark: textbook\n\n## Configuration\n\n- forward and")
    titles = [line for line in text.splitlines() if line.startswith("#")]
    assert titles[1:] == [
        *("## Configuration", "## Results", "## Key findings", "## How memory grows"),
        "## What to do about it",
    ]
    assert "\n\n\n" not in text
    assert text.endswith(".\n")
    power = cells(section(text, "How memory grows")[-1])
    assert power == ["textbook", "16", "64 → 256", "4x", "9.00x", "9.00x", "1.58"]
    assert "What to do" not in render(sweep(row("flash", 64, peak=1)))


def test_results_are_a_table(row, sweep):
    made = sweep(
        row("textbook", 64, before=1, peak=2, forward_ms=1.234, backward_ms=5),
        row("textbook", 128, peak=9, status=OOM, reason="…"),
        row("textbook", 256, status=ERROR, reason="a | b"),
        row("ring:4", 256, peak=3, by="by the model"),
    )
    assert [cells(line) for line in section(render(made), "Results")[4:]] == [
        ["textbook", "16", "64", "1.23", "5.00", "1.0", "2.0", "ok"],
        ["textbook", "16", "128", "-", "-", "-", "-", "OOM"],
        ["textbook", "16", "256", "-", "-", "-", "-", r"error: a \| b"],
        ["ring:4", "16", "256", "-", "-", "-", "3.0", "ok, by the model"],
    ]


def test_findings_are_computed(row, sweep):
    made = sweep(
        row("a", 64, 16, peak=1, forward_ms=2.0, backward_ms=5.0),
        row("a", 64, 32, peak=2, forward_ms=4.0, backward_ms=8.0),
        row("a", 128, 16, peak=40, status=OOM, reason="needs 1.0 MiB more in the forward pass"),
        row("b", 64, 16, peak=1),
        parameters={"passes": "7", "warmup": "2"},
    )
    text = render(made)
    assert section(text, "Key findings")[2:] == [
        "- a: the largest that runs is d=32 N=64, peak 2.0 MiB",
        "- a: the smallest out of memory is d=16 N=128: needs 1.0 MiB more in the forward pass; its"
        " peak would be 40.0 MiB",
        "- a: forward passes took 2.00 to 4.00 ms",
        "- a: backward took 2.0 to 2.5 times as long",
        "- b: the largest that runs is d=16 N=64, peak 1.0 MiB",
        "- b: nothing ran out of memory",
    ]
    assert "- times: mean of 7 passes after 2, synchronised each" in text


def test_the_accounting_is_of_what_ran_out_of_memory(row, sweep):
    made = sweep(
        row("a", 64, peak=2, components=(SCORES,)),
        row("a", 8192, peak=40, components=(SCORES,), status=OOM),
    )
    assert section(render(made), "Memory accounting")[:9] == [
        "Memory accounting: a, B=8 H=1 N=8192 d=16",
        "",
        "q, k and v are 12.0 MiB, the output is 4.0 MiB, and one",
        "matrix of scores, B·H·N·N, is 2048.0 MiB.",
        "With enough memory, the peak is 40.0 MiB on a device of 8.0 GiB. It consists of:",
        "",
        "| component   | size         | grows as   | bytes        |",
        "|-------------|--------------|------------|--------------|",
        "| scores      | 40.0 MiB     | O(B·N²)    | `24*B*N^2`   |",
    ]


def test_every_remedy_with_what_it_saves(row, sweep):
    made = sweep(
        row("textbook", 64, peak=10),
        row("textbook", 128, before=40, peak=100, status=OOM),
        row("flash", 64, peak=1),
        row("flash", 128, before=4, peak=5, forward_ms=1),
        row("flash-triton", 128, peak=3),
        row("ring:8", 128, peak=200, status=OOM),
        row("sliding-window", 128, status=ERROR, reason="it broke"),
    )
    lines = section(render(made), "What to do about it")
    assert lines[2] == "At d=16 N=128, where textbook would peak at 100.0 MiB:"
    assert lines[5::2] == [
        "   `flash` peaks at 5.0 MiB: 95.0% less, a factor of 20.0. Before the backward pass it"
        " needs 4.0 MiB instead of 40.0 MiB.",
        "   Not in this sweep: `--kernel textbook,checkpointed`.",
        "   `ring:8` peaks at 200.0 MiB (OOM on this device): 100.0% more.",
        "   `sliding-window`: error, it broke.",
    ]
