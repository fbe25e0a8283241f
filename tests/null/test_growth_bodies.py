"""The contracts of ``tests/growth`` on the null device, in one process."""

import subprocess
import sys

from growth import table


def test_every_contract_is_judged_right_or_not_at_all():
    program = [sys.executable, table.__file__, "null:H100"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest_attnmem.cli", "run", "--device", "H100", "--", *program],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
