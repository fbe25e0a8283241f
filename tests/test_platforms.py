"""The package without what only POSIX has: it is imported, and a marked suite runs."""

import subprocess
import sys
from pathlib import Path

import pytest

import pytest_attnmem

pytestmark = pytest.mark.thorough

#: Takes away, in a new process, what Python has on POSIX and lacks on Windows. What the standard
#: library itself needs on this machine stays: os.fork, os.uname, and the parts of subprocess.
AS_ON_WINDOWS = """
import os, signal, sys
for name in ("crypt", "curses", "fcntl", "grp", "nis", "pty", "pwd", "readline", "resource", "spwd",
             "syslog", "termios", "tty"):
    sys.modules[name] = None
for name in ("O_CLOEXEC", "chown", "fchmod", "fchown", "forkpty", "getegid", "geteuid", "getgid",
             "getpgid", "getuid", "killpg", "mkfifo", "nice", "openpty", "pread", "pwrite",
             "sched_getaffinity", "sched_setaffinity", "setsid", "statvfs"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "alarm", "setitimer"):
    delattr(signal, name)
"""

IMPORT_ALL = """
import importlib, pkgutil
import pytest_attnmem
for module in pkgutil.walk_packages(pytest_attnmem.__path__, "pytest_attnmem."):
    importlib.import_module(module.name)
    print(module.name)
"""

#: Forgets our modules alone: those of others would look for a part that is not on this machine.
ELSEWHERE = """
import sys
sys.platform = {platform!r}
for name in [name for name in sys.modules if name.partition(".")[0] == "pytest_attnmem"]:
    del sys.modules[name]
"""

SUITE = """
import pytest, torch

@pytest.mark.memory_budget("4 KiB")
def test_within(): torch.zeros(1024)

@pytest.mark.memory_budget("4 KiB")
def test_over(): torch.zeros(2048)

@pytest.mark.memory_budget()
def test_recorded(): torch.zeros(1024)
"""

NEXT = "the next session"

#: Records a baseline, and compares with it.
SESSIONS = f"""
import pytest
options = ["-p", "attnmem", "-p", "no:cacheprovider"]
pytest.main([*options, "--attnmem-update=all"])
print({NEXT!r})
pytest.main([*options, "--attnmem-backend=cpu"])
print({NEXT!r})
"""

NAMES = [
    ".".join(path.relative_to(Path(str(pytest_attnmem.__file__)).parents[1]).with_suffix("").parts)
    for path in Path(str(pytest_attnmem.__file__)).parent.rglob("*.py")
    if path.name not in ("__init__.py", "sitecustomize.py")  # Python alone runs the second
]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Returns what two sessions and the imports printed, in one process, and their folder."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_suite.py").write_text(SUITE, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        patch.delenv("PYTEST_ADDOPTS", raising=False)  # a setting of pytest-asyncio
        elsewhere = [ELSEWHERE.format(platform=platform) for platform in ("darwin", "win32")]
        programs = [AS_ON_WINDOWS, SESSIONS, *(IMPORT_ALL + to for to in elsewhere), IMPORT_ALL]
        ran = subprocess.run(
            [sys.executable, "-c", "\n".join(programs)],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (0, "")
    return folder, ran.stdout.split(NEXT)


def test_every_module_is_imported_without_what_only_posix_has_and_on_any_platform(printed):
    _, (*_, imported) = printed
    assert all(imported.split().count(name) == 3 for name in NAMES)


def test_a_marked_suite_runs_without_what_only_posix_has(printed):
    folder, (first, second, _) = printed
    assert "1 over" in first
    assert "attnmem: 3 budgets, 2 within, 1 over, 0 not enforced" in second
    assert (folder / "attnmem-baseline.json").is_file()
