"""The output that pages show of the null device is the real output."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "source"),
    [
        ("how-to/training.md", "train.py"),
    ],
)
def test_the_program_prints_what_is_shown(page, source, tmp_path):
    blocks = BLOCK.findall((DOCS / page).read_text("utf-8"))
    (script,) = (text for _, title, text in blocks if f'title="{source}"' in title)
    tmp_path.joinpath(source).write_text(script, "utf-8")
    (shown,) = (
        text
        for language, _, text in blocks
        if language == "console" and source in text and ("run" in text or "null" in text)
    )
    command, *lines = shown.splitlines()
    program, *arguments = command.split()[1:]
    module = {"attnmem": "pytest_attnmem.cli", "pytest": "pytest"}[program]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    printed = done.stdout.splitlines()
    assert [line for line in lines if line not in printed] == []
