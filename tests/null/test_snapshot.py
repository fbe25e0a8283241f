"""The files about tests over their budget that a session on the null device writes."""

import json
import pickle
import re

import pytest
from torch.cuda import _memory_viz

from pytest_attnmem.report.record import from_dict

TESTS = """
import pytest
import torch

def attention(q, k, v):
    return (q @ k.transpose(-1, -2)).softmax(-1) @ v

@pytest.mark.memory_budget("B*H*N*d*itemsize")
def test_over(qkv, attnmem):
    kept = torch.ones(512, device="cuda")
    attention(*qkv(1, 8, 512, 64, requires_grad=True)).sum().backward()
    with attnmem.region("next"):
        attention(*qkv(1, 8, 512, 64))

@pytest.mark.memory_budget("1 GiB")
def test_within(qkv):
    attention(*qkv(1, 8, 512, 64))
"""


@pytest.fixture
def evidence(session, tmp_path):
    """Returns the rows and the files, by kind, that a session wrote."""
    ran = session(TESTS, "--attnmem-backend=null", "--attnmem-artifacts=out")
    assert ran.code == 1, ran.out + ran.err
    rows = ran.data["results"]
    files = {"".join(path.suffixes[1:]): path for path in tmp_path.joinpath("out").iterdir()}
    assert len(files) == len([*tmp_path.joinpath("out").iterdir()])
    return {row["region"] or row["nodeid"]: from_dict(row) for row in rows}, files


def test_a_trace_and_a_snapshot_that_the_viewer_opens_and_nothing_of_what_is_within(evidence):
    rows, files = evidence
    row = rows["test_it.py::test_over"]
    levels = row.timeline.levels()
    assert max(levels) == row.peak_bytes
    scratch = [span.held.op for span in row.timeline.spans if span.held.scratch]
    assert scratch
    assert rows["test_it.py::test_within"].timeline is None
    trace, snapshot = (
        next(path for kind, path in files.items() if kind.endswith(ending))
        for ending in (".trace.json", ".snapshot.pickle")
    )
    assert [event["ph"] for event in json.loads(trace.read_text())["traceEvents"]].count("X") == (
        len(row.timeline.spans)
    )
    seen = pickle.loads(snapshot.read_bytes())
    assert {"segments", "device_traces", "allocator_settings", "external_annotations"} <= set(seen)
    made = [entry for entry in seen["device_traces"][0] if entry["action"] == "alloc"]
    assert [entry["size"] for entry in made] == [span.held.nbytes for span in row.timeline.spans]
    assert {"addr", "stream", "time_us", "frames", "user_metadata"} <= set(made[0])
    told = _memory_viz.trace(seen)  # as PyTorch itself reads it
    segments = sum(entry["action"] == "segment_alloc" for entry in seen["device_traces"][0])
    assert len(re.findall(r"^\w+ = ", told, re.MULTILINE)) == len(made) + segments
    words = [entry["user_metadata"] for entry in made]
    assert "[1, 8, 512, 512] float32  softmax  test_it.py:6" in words
    assert {block["state"] for segment in seen["segments"] for block in segment["blocks"]} >= {
        "inactive"
    }


def test_a_stack_begins_where_it_does_on_a_gpu(noted):
    """With the line of the program, not with what notes the operator."""
    script = """
torch.cuda.memory._record_memory_history(stacks="python")
def made():
    return torch.ones(1000, device="cuda")
def called(x):
    return torch.ops.aten.sin.default(x)
def composite(x):
    with torch.inference_mode():
        return torch.nn.functional.glu(x)
kept = made(); kept = kept, called(kept), composite(kept)
taken = torch.cuda.memory._snapshot()["device_traces"][0]
stacks = [[frame["name"] for frame in event["frames"]] for event in taken]
blocks = [block["frames"] for segment in torch.cuda.memory_snapshot()
          for block in segment["blocks"] if block["state"] == "active_allocated"]
answer([stack[:stack.index("<module>") + 1] for stack in stacks],
       [frames[0]["name"] for frames in blocks])
"""
    made, called = ["made", "<module>"], ["__call__", "called", "<module>"]
    composite = ["glu", "composite", "<module>"]
    assert noted(script) == ([made, made, called, composite], ["made", "__call__", "glu"])
