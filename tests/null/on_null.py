"""Code in a process of its own on a null device, for the scripts that record."""

import json
import os
import subprocess
import sys
from pathlib import Path

from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile

TESTS = Path(__file__).parents[1]


def said(device, code, *arguments, folders=(), check=True, **variables):
    """Returns the values that the code prints, a line of JSON each.

    ``device`` is a name or a profile. The code imports from the tests, from here and from
    ``folders``; its arguments are those of the process.
    """
    profile = find_profile(device) if isinstance(device, str) else device
    paths = map(str, (TESTS, TESTS.parent, Path(__file__).parent, *folders))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        env={
            **os.environ,
            **environment(profile),
            "PYTHONPATH": os.pathsep.join(paths),
            **variables,
        },
        stdout=subprocess.PIPE,
        text=True,
        check=check,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
