"""Every command that needs torch says so in one line where it is not installed."""

import json
import subprocess
import sys

SIZES = ["--B", "1", "--H", "1", "--d", "64"]
COMMANDS = {
    "predict": ["predict", "flash", "--N", "64", *SIZES],
    "max-length": ["max-length", "flash", *SIZES],
    "derive": ["derive", "json:dumps", "B N d"],
    "sweep": ["sweep", "--simulate"],
    "sweep on cuda": ["sweep", "--device", "cuda"],
}
#: Run in a process of its own: here, torch is imported.
PROGRAM = """
import contextlib, io, json, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from pytest_attnmem.cli import main

ran = {}
for name, arguments in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stderr(io.StringIO()) as told:
        code = main(arguments)
    ran[name] = (code, told.getvalue())
print(json.dumps(ran))
"""


def test_each_command_says_so_in_one_line():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(COMMANDS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    line = "attnmem {}: needs torch, which is not installed; pip install torch\n"
    assert json.loads(done.stdout) == {
        name: [2, line.format(command)] for name, (command, *_) in COMMANDS.items()
    }
