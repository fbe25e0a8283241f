"""The output that the page of training shows of the null device is the real output."""

import re
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "training.md"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(not torch.__version__.startswith("2.15"), reason="the page shows torch 2.15")
def test_the_program_prints_what_is_shown(attnmem, tmp_path):
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    (script,) = (text for _, title, text in blocks if 'title="train.py"' in title)
    (shown,) = (text for kind, _, text in blocks if kind == "console" and "$ attnmem run" in text)
    tmp_path.joinpath("train.py").write_text(script, "utf-8")
    command, *lines = shown.splitlines()
    done = attnmem(*command.removeprefix("$ attnmem run").split(), alone=True)
    assert done.returncode == 0, done.stderr
    printed = (done.stdout + done.stderr).splitlines()
    assert [line for line in lines if line not in printed] == []
