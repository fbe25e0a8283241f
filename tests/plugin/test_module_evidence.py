"""The failure of a plain test says which modules hold the memory, as do its trace and JSON."""

import json

import pytest

SUITE = """
import pytest
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return self.down(self.up(x).relu())

@pytest.mark.memory_budget("1 KiB")
def test_step(attnmem):
    with torch.device(attnmem.device):
        model = nn.Sequential(*(Block() for _ in range(4)))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.ones(64, 8, device=attnmem.device)).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("backend", ["cpu", "simulated"])
def test_equal_tensors_of_layers_are_one_line_with_their_module(suite, backend):
    suite.write(SUITE)
    ran = suite.run("--attnmem-backend", backend, "--attnmem-artifacts=out")
    lines = [line.strip() for line in ran.text.splitlines()]
    saved = "4 × 8.0 KiB  [64, 32] float32  relu  test_suite.py:12  in forward  saved by *"
    assert any(" ".join(line.split()) == " ".join(saved.split()) for line in lines)
    assert any("parameters: 16 tensors" in line for line in lines)
    assert any("gradients of parameters: 16 tensors" in line for line in lines)
    assert any("made by the optimizer: " in line for line in lines)
    row = ran.row("test_step", metric="peak")
    saved = {held.get("module") for held in row["held"] if held.get("role") == "saved"}
    assert {"0", "1.down", "3"} <= saved
    (trace,) = [
        path
        for path in suite.path.joinpath("out").iterdir()
        if "saved by 3" in path.read_text("utf-8")
    ]
    spans = [one for one in json.loads(trace.read_text())["traceEvents"] if one["ph"] == "X"]
    assert "backward of 3.down" in {span["args"].get("module") for span in spans}
