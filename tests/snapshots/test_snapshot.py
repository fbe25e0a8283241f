"""The events, lines and peaks of snapshots."""

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.snapshots.peak import before, line_changes, peak
from pytest_attnmem.snapshots.snapshot import load_snapshot
from pytest_attnmem.snapshots.source_lines import UNKNOWN, Line, line_of

from .recorded import event, snapshot, write

MIB = 1 << 20


def history(tmp_path, *events, segments=()):
    data = {"segments": [*segments], "device_traces": [[*events]]}
    (found,) = load_snapshot(write(tmp_path / "x", data))
    return found


def test_a_recorded_snapshot_has_its_peaks(tmp_path):
    """By hand: three inputs of 2 MiB, their gradients, and 32 MiB for each matrix of scores."""
    (plain,), (masked,) = (
        load_snapshot(write(tmp_path / name, snapshot(name))) for name in ("plain", "masked")
    )
    old, new = peak(plain), peak(masked)
    assert (new.nbytes - old.nbytes, new.reserved_bytes) == (MIB, 182 * MIB)
    assert sum(block.size for block in new.alive) == new.nbytes
    (change,) = line_changes(old, new)
    assert (change.delta, change.old_count, change.new_count) == (MIB, 0, 1)
    assert str(change.line) == "snap.py:4 in attention"


def test_what_was_there_before_the_events_counts(tmp_path):
    block = {"size": 512, "requested_size": 300, "state": "active_allocated"}
    free = {"size": 512, "requested_size": 0, "state": "inactive"}
    segment = {"device": 0, "address": 1000, "total_size": 2048, "stream": 0}
    found = history(
        tmp_path,
        event("free_requested", 5000, 70),
        event("alloc", 7000, 100, 3),
        event("alloc", 5000, 50, 4),
        event("oom", 0, 9999),
        event("snapshot", 0, 0),
        event("free_requested", 7000, 100),
        segments=[{**segment, "blocks": [free, block]}],
    )
    assert [(one.address, one.size) for one in before(found)] == [(1512, 300), (5000, 70)]
    assert peak(found).nbytes == 300 + 100 + 50
    assert [(one.size, str(one.line)) for one in peak(found).alive] == [
        (300, "no Python line was recorded"),
        (100, "attn.py:3 in f"),
        (50, "attn.py:4 in f"),
    ]
    assert peak(found).reserved_bytes == 2048


def test_an_event_that_the_history_lost_counts_once(tmp_path):
    found = history(tmp_path, event("alloc", 1, 100, 3), event("alloc", 1, 40, 4))
    assert peak(found).nbytes == 100


def test_an_edit_above_a_line_changes_nothing(tmp_path):
    old = peak(history(tmp_path, event("alloc", 1, 100, 3), event("alloc", 2, 60, 5)))
    new = peak(history(tmp_path, event("alloc", 9, 60, 8), event("alloc", 8, 100, 6),
                       event("alloc", 7, 100, 6), event("alloc", 6, 10, 9, "g")))  # fmt: skip
    assert [(one.delta, str(one.line)) for one in line_changes(old, new)] == [
        (100, "attn.py:6 in f"),
        (10, "attn.py:9 in g"),
    ]


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (["<frozen x>", "/v/site-packages/torch/nn/f.py", "/h/proj/attn.py"], "proj/attn.py"),
        (["??", "/usr/lib/python3.11/contextlib.py", "C:\\me\\attn.py"], "me/attn.py"),
        (["/src/torch/_ops.py"], "torch/_ops.py"),
        (["libtorch.so", "x.cpp"], ""),
        ([], ""),
    ],
)
def test_a_line_is_the_users(files, line):
    frames = [{"filename": file, "line": 7, "name": "f"} for file in files]
    assert line_of(frames) == (Line(line, 7, "f") if line else UNKNOWN)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1], "it is not a snapshot of torch.cuda.memory (TypeError list indices must be"),
        ({"a": 1}, "it is not a snapshot of torch.cuda.memory (KeyError 'segments')"),
        (
            {"segments": [], "device_traces": [[event("alloc", 0, -1)]]},
            "it is not a snapshot of torch.cuda.memory (ValueError a size of -1 bytes)",
        ),
        (
            {"segments": [], "device_traces": [[{"action": "alloc", "addr": "x"}]]},
            "it is not a snapshot of torch.cuda.memory (TypeError 'x' is not a whole number)",
        ),
    ],
)
def test_what_is_no_snapshot_is_one_line(tmp_path, data, message):
    path = write(tmp_path / "x", data)
    with pytest.raises(AttnMemError) as error:
        load_snapshot(path)
    assert str(error.value).startswith(f"cannot read {path}: {message}")


def test_a_snapshot_without_events_says_what_to_do(tmp_path):
    path = write(tmp_path / "x", {"segments": [], "device_traces": [[], []]})
    with pytest.raises(AttnMemError) as error:
        load_snapshot(path)
    assert str(error.value) == (
        f"{path} has no events; call torch.cuda.memory._record_memory_history() before the program"
        " allocates"
    )
