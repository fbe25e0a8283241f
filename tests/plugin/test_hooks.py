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
    ran = scripted.tests("""
@pytest.mark.memory_budget(10)
def test_it(attnmem):
    with attnmem.region("measured"): memory.use(1)
    with attnmem.region("over", 10): memory.use(11)

@pytest.mark.skip
@pytest.mark.memory_budget(10)
def test_skipped(): pass

@pytest.mark.memory_budget("64 MB")
def test_bad(): pass
""").run()
    assert [line for line in ran.result.outlines if line.startswith("row ")] == [
        "row ('test_it', 'measured', None)",
        "row ('test_it', 'over', 'over')",
        "row ('test_it', '', 'over')",
        "row ('test_skipped', '', 'not enforced')",
        "row ('test_bad', '', 'not enforced')",
    ]


@pytest.mark.parametrize("name", ["mine", "cpu"])  # "cpu" stands in for ours
def test_a_plugin_may_register_a_backend_under_any_name(scripted, name):
    scripted.write(
        f"""
from scripted import Scripted

class Plugin:
    def pytest_attnmem_register_backends(self):
        return {{"{name}": lambda argument: Scripted()}}

def pytest_configure(config): config.pluginmanager.register(Plugin())
""",
        "conftest.py",
    )
    scripted.ini["attnmem_backend"] = name
    ran = scripted.tests("""
@pytest.mark.memory_budget(10, exact=True)
def test_it(): memory.use(10)
""").run()
    assert ran.outcome("test_it") == "within"


@pytest.mark.parametrize("found", ["3", "'abc'", "{3: print}", "{'x': 3}"])
def test_what_is_no_dict_of_backends_ends_the_session_in_one_line(scripted, found):
    scripted.write(f"def pytest_attnmem_register_backends(): return {found}", "conftest.py")
    scripted.write("def test_it(): pass")
    result = scripted.run().result
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line]
    assert line.startswith("ERROR: pytest_attnmem_register_backends returned ")
