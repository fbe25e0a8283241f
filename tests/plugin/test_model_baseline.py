"""A model that is held to its baseline: a regression says which module and term grew."""

SUITE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        y = self.up(x)
        return self.down(torch.relu(y){extra})

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

def test_step(attnmem):
    step = attnmem.model(Model, inputs=["float[B,8]"], B=64, train="adamw")
    attnmem.check(step)
    attnmem.check(step.part("blocks.*", "saved for backward"), name="saved")
"""
OPTIONS = ("--attnmem-backend", "simulated:H100")


def test_a_model_without_a_limit_is_held_to_its_entry_and_says_what_grew(suite):
    suite.write(SUITE.replace("{extra}", ""))
    strict = suite.run(*OPTIONS, "--attnmem-strict=all")
    assert "check: not enforced: no baseline entry; --attnmem-update new writes one" in strict.text
    assert suite.run(*OPTIONS, "--attnmem-update=all").outcomes == {"passed": 1}
    assert "baseline: 2 same" in suite.run(*OPTIONS).text
    saved = 3 * 64 * 32 * 4  # of each block, the output of relu
    baseline = (suite.path / "attnmem-baseline.json").read_text("utf-8")
    assert baseline.count(f'"saved for backward of blocks.*": {saved}') == 2
    suite.write(SUITE.replace("{extra}", " * y.sigmoid()"))
    grown = suite.run(*OPTIONS)
    assert grown.outcomes == {"failed": 1}
    (line,) = [line for line in grown.text.splitlines() if "  grew  " in line]
    # Each block saves sigmoid's output and the product too; the last product is free by then.
    assert line.split("grew")[1].strip() == (
        "+40.0 KiB saved for backward of blocks.*; +8.0 KiB temporary of blocks.*"
    )
    assert any(line.endswith("saved by blocks.*") for line in grown.text.splitlines())
