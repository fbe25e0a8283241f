"""``--attnmem-backend null`` on machines without it; ``tests/null`` tests it elsewhere."""

import subprocess
import sys

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice import build


def _refusal():
    try:
        build.build()
    except BackendUnavailable as error:
        return str(error)
    return ""


@pytest.mark.skipif(not _refusal(), reason="the null device can be had here")
@pytest.mark.parametrize("place", ["command line", "ini"])
def test_where_it_cannot_be_had_the_session_ends_in_one_line(tmp_path, place):
    tmp_path.joinpath("test_it.py").write_text("def test_it(): pass", "utf-8")
    ini = "attnmem_backend = null\n" if place == "ini" else ""
    tmp_path.joinpath("pytest.ini").write_text(f"[pytest]\n{ini}", "utf-8")
    option = [] if place == "ini" else ["--attnmem-backend=null:H100"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *option],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.strip() == f"ERROR: --attnmem-backend: {_refusal()}"


def test_a_session_that_is_called_with_arguments_cannot_start_again(suite):
    suite.write("def test_it(): pass")
    ran = suite.run("--attnmem-backend=null", json_file=None)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert ran.result.errlines[0].startswith(
        "ERROR: --attnmem-backend: pytest.main was called with arguments of its own"
    )


def test_a_marker_that_asks_for_it_in_another_session_fails_in_one_line(suite):
    suite.write("""
import pytest

@pytest.mark.memory_budget("1 MiB", backend="null:H100")
def test_it(): pass
""")
    (line,) = suite.run().report("ERROR at setup of test_it")
    assert line == (
        "memory_budget: backend 'null' must be there before torch is imported: start with pytest"
        " --attnmem-backend null:H100, or attnmem run   test_suite.py:4"
    )


def test_values_are_computed_elsewhere(suite):
    suite.write("def test_it(attnmem): assert attnmem.computes is True")
    assert suite.run().outcomes == {"passed": 1}
