"""The output in ``docs/reference/null-device.md`` is the real output."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2].joinpath("docs", "reference", "null-device.md").read_text("utf-8")


def test_the_program_prints_what_is_shown(tmp_path):
    script = next(block for block in _blocks("python") if "AdamW" in block)
    command, *lines = next(b for b in _blocks("console") if "step.py" in b).splitlines()
    tmp_path.joinpath("step.py").write_text(script, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest_attnmem.cli", *command.split()[2:]],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines() == lines


def _blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
