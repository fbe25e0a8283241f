"""A process on a null device that has imported torch, and runs each script in a copy of itself.

The import takes longer than most scripts. The device is the program's argument. Reads a line of
JSON for each script, with its text and the files for its output and its errors, and answers with
its exit status.
"""

import json
import os
import signal
import sys
import traceback

from pytest_attnmem.nulldevice.launch import devices, load

load(devices(sys.argv[1]))  # before torch is imported

import sympy  # noqa: E402, F401  # backward imports it
import torch  # noqa: E402, F401  # CUDA starts in the copies

SECONDS = 300


def run(script: str, *files: str) -> None:
    signal.alarm(SECONDS)
    for stream, path in enumerate(files, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    try:
        exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(1)  # a script ends by its answer


for line in sys.stdin:
    copy = os.fork()
    if not copy:
        run(*json.loads(line))
    _, status = os.waitpid(copy, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
