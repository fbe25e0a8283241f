"""Suites that run in this process, with the plugin as it is installed."""

import importlib
import json
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_attnmem.profiles import PROFILES

#: The end of a message about an unknown device.
KNOWN_DEVICES = (
    f"expected one of {', '.join(name for name in PROFILES if 'MIG' not in name)}, or a slice such"
    " as A100-40GB MIG 1g.5gb"
)

#: Where one part of pytest's output ends and another begins.
_TITLE = re.compile(r"_+ .* _+|=+ .* =+|attnmem: .*")

#: The plugins that a suite does without.
PLUGINS = ("-pno:cacheprovider", "-pno:hypothesispytest", "-pno:randomly")

#: By whether a suite has ``async`` tests. Importing their plugins, with the event loops of two
#: libraries, takes a worker of pytest-xdist as long as the rest of its start.
ASYNC = {
    True: ("-oasyncio_default_fixture_loop_scope=function",),
    False: ("-pno:asyncio", "-pno:anyio"),
}

#: By whether a suite runs tests again. The plugin starts a thread for each suite, which waits for
#: workers for ever, and which each later window looks at.
RERUNS = {True: (), False: ("-pno:rerunfailures",)}


@contextmanager
def scripts(folder, *names):
    """Gives the scripts of a folder of tests by these names, which other folders have too."""
    for name in names:
        sys.modules.pop(name, None)
    sys.path.insert(0, str(Path(__file__).parent / folder))
    try:
        yield [importlib.import_module(name) for name in names]
    finally:
        sys.path.pop(0)
        for name in names:
            sys.modules.pop(name, None)


@dataclass
class Ran:
    """The result of a suite."""

    result: pytest.RunResult
    rows: list[dict]
    """The results in the JSON file."""
    summary: dict
    environment: dict

    @property
    def outcomes(self):
        return self.result.parseoutcomes()

    @property
    def text(self):
        """The printed text, without the fill at the ends of lines."""
        return self.result.stdout.str()

    @property
    def line(self):
        """The one line that a session with budgets ends with."""
        (line,) = (line for line in self.result.outlines if line.startswith("attnmem: "))
        return line

    def short(self, test):
        """The line of the short summary on that test."""
        (line,) = (
            line
            for line in self.result.outlines
            if line.startswith(("FAILED ", "ERROR ", "XFAIL ", "XPASS ", "SKIPPED "))
            and line.partition("::")[2].partition(" - ")[0] == test
        )
        return line.partition(" ")[0] + ": " + line.partition(" - ")[2]

    def report(self, title):
        """The lines under that title: a failed test, ``ERROR at setup of test_forward``."""
        lines = self.result.outlines
        start = next(
            i for i, line in enumerate(lines) if line.strip("_ ") == title and "__ " in line
        )
        length = next(i for i, line in enumerate(lines[start + 1 :]) if _TITLE.fullmatch(line))
        return lines[start + 1 : start + 1 + length]

    def row(self, test, region="", metric="peak"):
        """The one row of that test, such as ``TestAttention::test_forward``."""
        (row,) = (
            row
            for row in self.rows
            if row["nodeid"].partition("::")[2] == test
            and (row["region"], row["metric"]) == (region, metric)
        )
        return row

    def outcome(self, *args, **kwargs):
        row = self.row(*args, **kwargs)
        return f"{row['outcome']}: {row['reason']}" if row["reason"] else row["outcome"]


@dataclass
class Suite:
    """A folder with tests."""

    pytester: pytest.Pytester
    head: str = "\nimport pytest, torch\n"
    """The imports of its tests."""
    ini: dict[str, str] = field(default_factory=dict)

    @property
    def path(self):
        return self.pytester.path

    def write(self, text, name="test_suite.py"):
        """A file of the suite; a test module unless named otherwise."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def tests(self, text):
        """Writes tests below the imports; returns the suite."""
        self.write(self.head + text)
        return self

    def run(
        self, *arguments, json_file="rows.json", shown=("-rA",), has_async=False, has_reruns=False
    ):
        """Run the suite, in this process."""
        self._write_ini()
        options = [*PLUGINS, *ASYNC[has_async], *RERUNS[has_reruns], *shown]
        if json_file:
            options.append(f"--attnmem-json={json_file}")
        result = self.pytester.runpytest_inprocess(*options, *arguments, no_reraise_ctrlc=True)
        written = self.path / json_file if json_file else Path()
        data = json.loads(written.read_text("utf-8")) if written.is_file() else {}
        parts = (data.get(name, {}) for name in ("results", "summary", "environment"))
        return Ran(result, *parts)

    def configured(self, *arguments):
        """The configuration of a session, which is not begun."""
        self._write_ini()
        return self.pytester.parseconfig(*PLUGINS, *ASYNC[False], *RERUNS[False], *arguments)

    def _write_ini(self):
        lines = "".join(f"{name} = {value}\n" for name, value in self.ini.items())
        self.write(f"[pytest]\n{lines}", "pytest.ini")
