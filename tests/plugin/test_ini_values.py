"""Every option with every kind of value that pyproject.toml may have: a message, never a crash."""

import pytest

from pytest_attnmem.plugin.options import OPTIONS
from pytest_attnmem.plugin.session import SESSION

#: How a value is written, and how it reads in a message.
FORMS = {
    "list": ('["cpu"]', "['cpu']"),
    "number": ("5", "5"),
    "empty": ('""', "''"),
    "word": ('"maybe"', "maybe"),
    "boolean": ("true", "True"),
}
#: The kinds of option that take such a value, by the table that it stands in. A word may be the
#: name of a file, or of an argument that a formula reads; an empty text is no value.
NO_FLAG = {"text", "amount", "choice", "level", "path", "directory"}
ACCEPTED = {
    "tool.pytest.ini_options": {
        "list": set(),
        "number": {"amount"},
        "empty": NO_FLAG,
        "word": {"path", "directory", "amount"},
        "boolean": {"flag"},
    }
}
NATIVE = pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 9 reads [tool.pytest]")
ACCEPTED["tool.pytest"] = {**ACCEPTED["tool.pytest.ini_options"]}
if pytest.version_tuple < (9, 2):
    ACCEPTED["tool.pytest"]["number"] = set()
#: What these options refuse of their kind.
REFUSED = {("number", "tolerance"), ("word", "tolerance"), ("word", "values_limit")}


@pytest.mark.parametrize("option", OPTIONS, ids=[option.name for option in OPTIONS])
@pytest.mark.parametrize(
    "table", ["tool.pytest.ini_options", pytest.param("tool.pytest", marks=NATIVE)]
)
def test_a_value_is_accepted_or_refused_in_one_line(pytester, monkeypatch, table, option):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which takes most of the time
    (pytester.path / "maybe").write_text('{"schema": 1, "entries": []}')  # a baseline
    if option.kind == "directory":
        (pytester.path / "maybe").unlink()
    for form, (written, found) in FORMS.items():
        pytester.makepyprojecttoml(f"[{table}]\nattnmem_{option.name} = {written}\n")
        accepted = option.kind in ACCEPTED[table][form] and (form, option.name) not in REFUSED
        try:
            config = pytester.parseconfigure("-pattnmem", "-Wignore")
        except pytest.UsageError as refusal:
            text = str(refusal)
            assert not accepted, text
            assert text.startswith(f"attnmem_{option.name}: ")
            assert found in text
            assert any(word in text for word in ("expected", "write", "is not one of")), text
            assert "\n" not in text
        else:
            assert accepted, (form, config.stash[SESSION].settings)


def test_a_number_without_a_unit_is_bytes_as_in_the_marker(suite):
    suite.ini["attnmem_default"] = "1024"
    suite.write("import torch\ndef test_it(): torch.ones(256)\ndef test_more(): torch.ones(257)\n")
    ran = suite.run()
    assert ran.row("test_it")["limit_bytes"] == 1024
    assert [ran.outcome(f"test_{name}").partition(":")[0] for name in ("it", "more")] == [
        "within",
        "over",
    ]


@pytest.mark.parametrize("name", ["backend", "disable"])
def test_what_is_read_before_conftest_files_is_refused_in_one_line_too(pytester, name):
    pytester.makepyprojecttoml(f"[tool.pytest.ini_options]\nattnmem_{name} = ['cpu']\n")
    ran = pytester.runpytest_inprocess("-Wignore")
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = filter(None, ran.errlines)
    assert line.startswith(f"ERROR: attnmem_{name}: expected ")
    assert "INTERNALERROR" not in ran.stdout.str()
