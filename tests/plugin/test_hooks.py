"""The hooks that conftest files and plugins may implement."""

import pytest


def test_each_row_is_shown_to_the_hook_once_as_it_is_made(scripted):
    scripted.write(
        """
from scripted import pytest_attnmem_register_backends

seen = []

def pytest_attnmem_record(item, record):
    seen.append((item.name, record.region, record.outcome and record.outcome.value))

def pytest_terminal_summary(terminalreporter):
    for row in seen: terminalreporter.write_line(f"row {row}")
""",
        "conftest.py",
    )
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget(10)
def test_it(attnmem):
    with attnmem.region("measured"): memory.use(1)
    with attnmem.region("over", 10): memory.use(11)

@pytest.mark.skip
@pytest.mark.memory_budget(10)
def test_skipped(): pass

@pytest.mark.memory_budget("64 MB")
def test_bad(): pass
""")
    ran = scripted.run()
    assert [line for line in ran.result.outlines if line.startswith("row ")] == [
        "row ('test_it', 'measured', None)",
        "row ('test_it', 'over', 'over')",
        "row ('test_it', '', 'over')",
        "row ('test_skipped', '', 'not enforced')",
        "row ('test_bad', '', 'not enforced')",
    ]


def test_a_plugin_may_register_a_backend_under_any_name(scripted):
    scripted.write(
        """
from scripted import Scripted

class Plugin:
    def pytest_attnmem_register_backends(self):
        return {"mine": lambda argument: Scripted()}

def pytest_configure(config): config.pluginmanager.register(Plugin())
""",
        "conftest.py",
    )
    scripted.ini["attnmem_backend"] = "mine"
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget(10)
def test_it(): memory.use(10)
""")
    assert scripted.run().outcome("test_it") == "within"


def test_a_backend_of_ones_own_may_stand_in_for_ours(scripted):
    scripted.write(
        """
from scripted import Scripted

def pytest_attnmem_register_backends(): return {"cpu": lambda argument: Scripted()}
""",
        "conftest.py",
    )
    scripted.ini["attnmem_backend"] = "cpu"
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget(10, exact=True)
def test_it(): memory.use(10)
""")
    assert scripted.run().outcome("test_it") == "within"


@pytest.mark.parametrize("found", ["3", "'abc'", "{3: print}", "{'x': 3}"])
def test_what_is_no_dict_of_backends_ends_the_session_in_one_line(scripted, found):
    scripted.write(f"def pytest_attnmem_register_backends(): return {found}", "conftest.py")
    scripted.write("def test_it(): pass")
    result = scripted.run().result
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line]
    assert line.startswith("ERROR: pytest_attnmem_register_backends returned ")
