"""Names that are gone, and stand-ins, each in a process of its own."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from pytest_attnmem.plugin.substitutes import Substitutes
made = Substitutes(["absent", "json"])
made.install()
{body}
print(made.used)
"""


def ran(body: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("body", "used"),
    [
        ("", "{}"),
        (
            "from torch._six import container_abcs, string_classes, inf\n"
            "assert issubclass(dict, container_abcs.Mapping) and string_classes and inf > 1e9",
            "{'torch._six': 'removed'}",
        ),
        (
            "from collections import Iterable\nassert isinstance([], Iterable)",
            "{'collections.Iterable': 'removed'}",
        ),
        ("import json\njson.dumps({})", "{}"),  # what is installed comes first
        (
            "import absent.deep.er as er\nfrom absent import Thing\n"
            "class Mine(Thing): x = 1\n"
            "assert Mine.x == 1 and er.name.other and list(er.name) == []",
            "{'absent': 'stand-in'}",
        ),
        ("try: import nowhere\nexcept ModuleNotFoundError: pass", "{}"),
        ("try: from collections import Nothing\nexcept ImportError: pass", "{}"),
    ],
)
def test_what_was_used_is_named(body, used):
    assert ran(body) == used


def test_a_stand_in_is_called_by_an_import_alone(tmp_path):
    tmp_path.joinpath("lib.py").write_text(
        "import absent\nready = absent.make(3)\n@absent.register\ndef f(): return 7\n", "utf-8"
    )
    body = f"""
sys.path.insert(0, {str(tmp_path)!r})
import lib
assert lib.f() == 7
try:
    lib.absent.make(3)
except NotImplementedError as error:
    print(error)
"""
    assert ran(body) == "absent.make is a stand-in, which computes nothing\n{'absent': 'stand-in'}"
