"""Every option, on the command line and in the ini file."""

from dataclasses import fields
from pathlib import Path

import pytest

from pytest_attnmem.backends.registry import BACKENDS, check_name
from pytest_attnmem.budgets.parsing import parse
from pytest_attnmem.budgets.tolerance import parse_tolerance
from pytest_attnmem.measurement.values_limit import VALUES_LIMIT
from pytest_attnmem.plugin.options import FORMATS, OPTIONS, Settings, read_settings
from pytest_attnmem.report import KINDS

SETTINGS = [setting.name for setting in fields(Settings)]

#: Option → two texts, each with the value that it sets; for a flag, texts of the ini file.
#: The tests below fail if an option is missing here.
VALUES = {
    "report": ("true", True, "false", False),
    "backend": ("cpu", "cpu", "accelerator:xpu:0", "accelerator:xpu:0"),
    **{kind: (f"a.{kind}", Path(f"a.{kind}"), f"b.{kind}", Path(f"b.{kind}")) for kind in KINDS},
    "github": ("true", True, "false", False),
    "artifacts": ("a-folder", Path("a-folder"), "b/folder", Path("b/folder")),
    "baseline": ("a-baseline", Path("a-baseline"), "b-baseline", Path("b-baseline")),
    "update": ("new", "new", "all", "all"),
    "tolerance": ("2%+1MiB", parse_tolerance("2%+1MiB"), "5%", parse_tolerance("5%")),
    "default": ("1 KiB", parse(("1 KiB",), {}), "2*N", parse(("2*N",), {})),
    "strict": ("all", "all", "off", "off"),
    "explain": ("off", "off", "all", "all"),
    "workspaces": ("in", "in", "out", "out"),
    "values_limit": ("1e9", "1e9", "0", "0"),
    "disable": ("true", True, "false", False),
}


@pytest.fixture
def suite(suite):
    """A suite with the baselines that are asked for."""
    for name in ("a-baseline", "b-baseline"):
        suite.write('{"schema": 1, "entries": []}', name)
    return suite


#: Disabling contradicts others; the rest is asked for in one call.
TOGETHER = pytest.mark.parametrize(
    "names", [[name for name in VALUES if name != "disable"], ["disable"]], ids=["most", "disable"]
)
#: TOML's own numbers, which pytest reads from 9.2 on.
NUMBERS = pytest.version_tuple >= (9, 2)
NAMED = {option.name: option for option in OPTIONS}
#: The types in the ini file, where they are not texts.
KIND = {"flag": "bool", "amount": "string | int | float" if NUMBERS else "string"}
DEFAULTS = {option.name: option.default for option in OPTIONS}


def in_force(suite, *arguments):
    """Returns the value of each option by that ini file and command line."""
    settings = read_settings(suite.configured(*arguments))
    values = {name: getattr(settings, name) for name in SETTINGS}
    values |= {**dict.fromkeys(KINDS), **values.pop("files")}
    paths = {name: path for name, path in values.items() if isinstance(path, Path)}
    return {**values, **{name: path.relative_to(suite.path) for name, path in paths.items()}}


def arguments(names, at=0):
    """Those options on the command line, with one of their texts; a flag has none."""
    return [
        NAMED[name].flag + ("" if NAMED[name].kind == "flag" else f"={VALUES[name][at]}")
        for name in names
    ]


def values(names, at):
    """The values that the texts stand for, and the defaults of the other options."""
    return {**DEFAULTS, **{name: VALUES[name][at] for name in names}}


def test_what_is_read_is_in_force(suite):
    suite.write(
        """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    from pytest_attnmem.plugin.session import SESSION
    from pytest_attnmem.plugin.options import read_settings
    assert session.config.stash[SESSION].settings == read_settings(session.config)
    assert session.config.stash[SESSION].settings.explain == "all"
""",
        "conftest.py",
    )
    suite.write("def test_it(): pass")
    assert suite.run("--attnmem-explain=all").outcomes == {"passed": 1}


@TOGETHER
def test_on_the_command_line(suite, names):
    assert in_force(suite, *arguments(names)) == values(names, 1)


@TOGETHER
@pytest.mark.parametrize("at", [0, 2], ids=["one", "other"])
def test_in_the_ini_file(suite, names, at):
    suite.ini |= {f"attnmem_{name}": VALUES[name][at] for name in names}
    assert in_force(suite) == values(names, at + 1)


@TOGETHER
def test_the_command_line_is_over_the_ini_file(suite, names):
    suite.ini |= {f"attnmem_{name}": VALUES[name][2] for name in names}
    assert in_force(suite, *arguments(names)) == values(names, 1)


def test_by_default_and_where_the_ini_file_has_empty_values(suite):
    assert in_force(suite) == DEFAULTS
    suite.ini |= {f"attnmem_{option.name}": "" for option in OPTIONS if option.kind != "flag"}
    assert in_force(suite) == DEFAULTS


def test_help_tells_of_each_on_the_command_line_and_in_the_ini_file(suite):
    text = " ".join(suite.run("--help", json_file=None).text.split())
    for option in OPTIONS:
        assert option.flag in text
        assert text.count(option.help) == 2
        assert f"attnmem_{option.name} ({KIND.get(option.kind, 'string')}):" in text


@TOGETHER
def test_none_takes_an_optional_value_which_would_swallow_a_path(suite, names):
    path = str(suite.write("def test_it(): pass"))
    given = [word for argument in arguments(names) for word in (*argument.split("="), path)]
    assert suite.configured(*given).args == [path] * len(names)


@pytest.mark.parametrize(
    "name", [option.name for option in OPTIONS if option.kind not in ("flag", "level")]
)
def test_an_option_without_its_value_is_refused(suite, name):
    ran = suite.run(NAMED[name].flag, json_file=None)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"argument {NAMED[name].flag}: expected one argument" in ran.result.stderr.str()


def test_every_setting_and_every_format_of_a_report_is_an_option():
    names = [option.name for option in OPTIONS]
    at = SETTINGS.index("files")
    assert names == [*SETTINGS[:at], *KINDS, *SETTINGS[at + 1 :]]
    assert [*FORMATS] == [*KINDS]


def test_what_the_options_repeat_of_heavier_modules_is_theirs():
    assert DEFAULTS["values_limit"] == VALUES_LIMIT
    named = NAMED["backend"].help.partition(": ")[2].split(", ")
    assert {name.partition(":")[0] for name in named} == {"auto", *BACKENDS}
    for name in named:
        check_name(name)


BAD = {
    "an unknown backend": (
        "backend",
        "gpu",
        f"unknown backend 'gpu'; expected one of {', '.join(('auto', *BACKENDS))}; did"
        " you mean 'cuda'?",
    ),
    "a file in no folder": (
        "json",
        "nowhere/a.json",
        "there is no directory {path}/nowhere; create it first",
    ),
    "no tolerance": (
        "tolerance",
        "2 MB",
        "cannot read tolerance '2 MB'; write a fraction (0.05), a percentage ('5%'), a size"
        " ('1 MiB') or both ('2%+1MiB')",
    ),
    "a size in other units": (
        "default",
        "64 MB",
        "cannot parse size '64 MB': write '64 MiB' (1 MiB = 1024**2 bytes); MB is used for both"
        " 10**6 and 2**20",
    ),
    "a name that no file can have": ("json", "a" * 300, f"File name too long: '{'a' * 79}"),
    "a folder": ("json", ".", "{path} is a directory; name a file in it"),
    "a file": ("artifacts", "a-baseline", "{path}/a-baseline is a file; name a directory"),
    "below a file": (
        "artifacts",
        "a-baseline/out",
        "{path}/a-baseline cannot be written to; name another directory",
    ),
    "no name": ("json", "a\0b", "embedded null byte: 'a\\x00b'"),
    "no limit": (
        "values_limit",
        "1.5",
        "expected a whole number of floating-point operations, such as 1e12 or 0, got '1.5'",
    ),
    "a test": ("json", "test_suite.py", "test_suite.py would be overwritten; give a file to write"),
}


@pytest.mark.parametrize("place", ["command line", "ini"])
@pytest.mark.parametrize(("name", "text", "message"), BAD.values(), ids=BAD)
def test_a_bad_value_is_one_line_and_exit_code_4(suite, place, name, text, message):
    path = suite.write("def test_it(): pass")
    arguments = []
    if place == "ini":
        suite.ini[f"attnmem_{name}"] = text
    else:
        arguments = [NAMED[name].flag, text]
    ran = suite.run(*arguments, json_file=None)
    source = f"attnmem_{name}" if place == "ini" else NAMED[name].flag
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert ran.result.errlines == [f"ERROR: {source}: {message.format(path=suite.path)}", ""]
    assert path.read_text() == "def test_it(): pass"


@pytest.mark.parametrize(
    ("given", "both", "path"),
    [
        (("--attnmem-csv=a", "--attnmem-html=./a"), "csv and html", "a"),
        (("--attnmem-json=attnmem-baseline.json",), "json and baseline", "attnmem-baseline.json"),
        (("--attnmem-csv=b", "--attnmem-baseline=b"), "csv and baseline", "b"),
    ],
)
def test_one_file_for_two_options_is_refused(suite, given, both, path):
    ran = suite.run(*given, json_file=None)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert ran.result.errlines[0] == (
        f"ERROR: attnmem: {both} name the same file, {suite.path / path}; give each its own"
    )


def test_a_choice_that_is_none_is_refused(suite):
    ran = suite.run("--attnmem-explain=always", json_file=None)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert "argument --attnmem-explain: invalid choice: 'always'" in ran.result.stderr.str()
    for name, text, message in (
        ("report", "maybe", "expected true or false: invalid truth value 'maybe'"),
        ("explain", "always", "'always' is not one of auto, all, off"),
    ):
        suite.ini = {f"attnmem_{name}": text}
        ran = suite.run(json_file=None)
        assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
        assert ran.result.errlines == [f"ERROR: attnmem_{name}: {message}", ""]


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("strict=all", "strict=all fails what is not enforced"),
        ("update", "what is not measured cannot be written"),
    ],
)
def test_what_disable_contradicts(suite, option, why):
    given = f"--attnmem-{option.partition('=')[0]}=all"
    ran = suite.run(given, "--attnmem-disable", json_file=None)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    line = f"ERROR: attnmem: {option} and disable contradict each other; {why}"
    assert ran.result.errlines == [line, ""]


def test_a_file_is_relative_to_the_rootdir_or_to_the_working_directory(suite, monkeypatch):
    suite.write("def test_it(): pass", "sub/test_sub.py")
    suite.ini["attnmem_json"] = "a.json"
    monkeypatch.chdir(suite.path / "sub")
    suite.run(json_file=None)
    assert (suite.path / "a.json").is_file()
    suite.run("--attnmem-json=a.json", json_file=None)
    assert (suite.path / "sub" / "a.json").is_file()


PATHS = [option for option in OPTIONS if option.kind in ("path", "directory")]


@pytest.fixture
def outside(suite, tmp_path_factory):
    """A folder that has no ini file, nor has one above it that the suite's folder has."""
    suite.write("def test_it(): pass")
    return tmp_path_factory.mktemp("outside of it")


def named(option, folder):
    if option.kind == "directory":
        return folder
    path = folder / "a.file"
    path.write_text('{"schema": 1, "entries": []}')
    return path


@pytest.mark.parametrize("option", PATHS, ids=lambda option: option.name)
def test_a_path_that_moves_the_rootdir_is_refused(suite, outside, option):
    path = named(option, outside)
    ran = suite.run(option.flag, str(path), json_file=None)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    (line, *_) = ran.result.errlines
    assert line.startswith(f"ERROR: {option.flag} {path}: pytest takes a path after a space for")
    assert f"and no ini file, not with rootdir {suite.path} and pytest.ini of {suite.path}" in line
    assert line.endswith(f"; write '{option.flag}={path}'")
    assert suite.run(f"{option.flag}={path}", json_file=None).outcomes == {"passed": 1}


def test_a_path_that_moves_nothing_may_follow_a_space(suite, outside, monkeypatch):
    missing, inside = outside / "not-yet.json", suite.path / "rows.json"
    inside.write_text("")
    for given in (missing, inside, "x" * 300):
        ran = suite.run("--attnmem-json", str(given), json_file=None)
        assert "pytest takes a path" not in ran.result.stderr.str()
    path = named(PATHS[0], outside)
    ran = suite.run("--attnmem-json", str(path), f"--rootdir={suite.path}", "-c", "pytest.ini")
    assert ran.outcomes == {"passed": 1}
    monkeypatch.setenv("PYTEST_ADDOPTS", f"--attnmem-json {path}")
    assert suite.run(json_file=None).result.ret == pytest.ExitCode.USAGE_ERROR
