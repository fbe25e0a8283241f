"""The regressions of ``tests/zoo`` on the null device, in one process."""

import subprocess
import sys

from zoo import table


def test_every_regression_is_caught_as_on_the_other_backends():
    program = [sys.executable, table.__file__, "null:H100"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest_attnmem.cli", "run", "--device", "H100", "--", *program],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    expected = table.table({"null:H100": table.claimed()})
    lines = done.stdout.splitlines()
    assert done.returncode == 0, "\n".join(lines) + done.stderr
    assert [line for line in lines if line.startswith("|")] == expected.splitlines()
