"""Code in a process of its own on a null device, for the scripts that record.

They import it first: it makes the modules of ``tests`` known.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile

sys.path.insert(0, str(Path(__file__).parents[1]))

import recordings

TESTS = Path(__file__).parents[1]
CALL = """
import importlib, json, os, sys
module, function, arguments = sys.argv[1:]
answer = getattr(importlib.import_module(module), function)(*json.loads(arguments))
print(json.dumps(answer), flush=True)
os._exit(0)
"""


def answer(device, module, function, *arguments, **options):
    """Returns what a function of a module returns there; the options are those of ``said``."""
    return said(device, CALL, module, function, json.dumps(arguments), **options)[-1]


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


def write(name, what, by_device):
    """Writes a recording with the answers of each device: a text, or a list or mapping, by line."""
    head = json.dumps({"what": what, "torch": version("torch")}, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(key)}: {_lines(value)}" for key, value in by_device.items())
    file = recordings.folder() / f"{name}.json"
    file.write_text(f'{head},\n "devices": {{\n{lines}\n }}\n}}\n', "utf-8")
    print(name, {device: len(answers) for device, answers in by_device.items()})


def _lines(answers):
    if isinstance(answers, str):
        return json.dumps(answers)
    opened, closed = "{}" if isinstance(answers, dict) else "[]"
    lines = map(recordings.dense, answers)
    if isinstance(answers, dict):
        lines = (f"{json.dumps(key)}: {recordings.dense(one)}" for key, one in answers.items())
    return f"{opened}\n" + ",\n".join(f"   {line}" for line in lines) + f"\n  {closed}"
