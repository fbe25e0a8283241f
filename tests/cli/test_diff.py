"""``attnmem diff``."""

import json
from dataclasses import replace

import pytest

from pytest_attnmem.cli import main
from pytest_attnmem.measurement.held import Held

from ..snapshots.recorded import snapshot
from ..snapshots.recorded import write as write_pickle
from .sessions import ROW, write


@pytest.fixture
def pickles(tmp_path):
    return [
        str(write_pickle(tmp_path / f"{name}.pickle", snapshot(name)))
        for name in ("plain", "masked")
    ]


def test_two_snapshots(pickles, capsys):
    assert main(["diff", *pickles]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "cuda:0 peak 158.3 MiB → 159.3 MiB (+1,048,576 B)",
        "  reserved 182.0 MiB → 182.0 MiB",
        "  at the peaks, by line and number of allocations:",
        "    +1.0 MiB  0 → 1  snap.py:4 in attention",
    ]
    assert main(["diff", *pickles[:1], *pickles[:1]]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "cuda:0 peak 158.3 MiB (+0 B)",
        "  reserved 182.0 MiB → 182.0 MiB",
        "  the same allocations at both peaks",
    ]


def test_the_best_settings_are_named_first(pickles, capsys):
    assert main(["diff", pickles[1], "--what-if", "--settings", "max_split_size_mb:20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "cuda:0: max_split_size_mb:32 reserves 12.0 MiB less than the defaults",
        "  its own settings: 182.0 MiB reserved, as recorded",
        "  * max_split_size_mb:32                                 170.0 MiB reserved, 159.3 MiB in"
        " blocks",
    ]
    assert main(["diff", pickles[1], "--what-if", "--memory", "100 MiB", "--json"]) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    assert all(one["out_of_memory"] for one in device["what_if"]["settings"])


def test_two_results_have_terms_and_lines(tmp_path, capsys):
    scores = Held(1024, (16, 16), "float32", "mm", "attn.py:7", "f", dims=("N", "N"))
    mask = replace(scores, op="masked_fill", where="attn.py:8")
    row = replace(ROW, held=(scores,))
    grown = replace(row, peak_bytes=3072, held=(scores, mask, mask))
    bare = replace(ROW, nodeid="a.py::bare")
    old = write(tmp_path / "old.json", row, bare, replace(ROW, nodeid="a.py::same"))
    new = write(
        tmp_path / "new.json", grown, replace(bare, peak_bytes=1), replace(ROW, nodeid="a.py::same")
    )
    assert main(["diff", old, new]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 of 3 results grew, 1 shrank, 1 unchanged",
        "",
        "a.py::test",
        "  1.0 KiB → 3.0 KiB (+2,048 B) on cpu",
        "  at the peak:",
        "    +2.0 KiB  +2 × [N, N] float32 masked_fill  attn.py:8 in f  ← N·N",
        "",
        "a.py::bare",
        "  1.0 KiB → 1 B (-1,023 B) on cpu",
        "  its tensors are not listed; measure both with --attnmem-explain all",
    ]
    assert main(["diff", old, new, "--json"]) == 0
    first, _ = json.loads(capsys.readouterr().out)["results"]
    assert [one["term"] for one in first["tensors"]] == ["+8*N^2 masked_fill attn.py:8"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one"], "expected two files, or one with --what-if, got 1; as in old.pickle new.pickle"),
        (["one"] * 3, "expected two files, or one with --what-if, got 3; as in old.pickle new.p"),
        (
            ["one", "results"],
            "one and results are a JSON file and a snapshot; compare two of one k",
        ),
        (
            ["results", "--what-if"],
            "--what-if replays the events of a snapshot; a JSON file has no",
        ),
        (["results", "other"], "results and other have no result in common: no test was measured"),
        (["one", "none"], "cannot read none: No such file or directory"),
        (["one", "--what-if", "--memory", "80 GB"], "cannot parse size '80 GB': write '80 GiB'"),
    ],
)
def test_a_wrong_command_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_pickle(tmp_path / "one", snapshot("plain"))
    write(tmp_path / "results", ROW)
    write(tmp_path / "other", replace(ROW, nodeid="b.py::test"))
    assert main(["diff", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"attnmem diff: {message}")
    assert err.count("\n") == 1
