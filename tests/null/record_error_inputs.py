"""Record the errors of wrong calls: ``python tests/null/record_error_inputs.py``, CUDA build.

The calls that ``tests/error_inputs.py`` describes run on the null device. A row of
``tests/data/cuda/<version>/error-inputs.json`` has an operator's errors in the order of its calls:
the type and the first line, or "" for a call that runs.
"""

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import recordings

from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile

TESTS = Path(__file__).parents[1]
DEVICE = "A100-80GB"


def main():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "record"],
        env={
            **os.environ,
            **environment(find_profile(DEVICE)),
            "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent), *sys.path[1:]]),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    errors = json.loads(done.stdout.splitlines()[-1])
    what = "errors of the error inputs of torch's op_db"
    path = recordings.write("error-inputs", what, DEVICE, "errors", errors)
    print(path, sum(map(len, errors.values())))


def record():
    import error_inputs

    from pytest_attnmem.backends.null import program
    from pytest_attnmem.measurement.values_limit import VALUES_LIMIT, parse_values_limit

    program.prepare(parse_values_limit(VALUES_LIMIT))
    found = {}
    for name, op in error_inputs.operators().items():
        said = []
        for number in count():
            try:
                error = error_inputs.told(op, number)
            except Exception:  # of the null device
                error = ""
            if error is None:
                break
            said.append(error)
        found[name] = said
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    record() if sys.argv[1:] else main()
