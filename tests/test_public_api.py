"""The public names of the package, and the cost of its import."""

import ast
import importlib
import importlib.metadata
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_attnmem

#: Modules that take long to import, and must wait until something is measured or printed.
HEAVY = ("torch", "numpy", "tabulate")


def imported(code: str, *names: str) -> list[str]:
    """Which of the modules a fresh interpreter has after running ``code``."""
    listing = f"{code}\nimport sys\nprint(*[n for n in {names!r} if n in sys.modules])"
    # Not in the working directory's way, and without what .pth files of the environment bring in.
    run = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    return run.stdout.split()


@pytest.mark.parametrize("name", pytest_attnmem.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    found = getattr(pytest_attnmem, name)
    assert callable(found)
    assert found.__doc__


def test_the_names() -> None:
    # A list on purpose, sorted: users rely on each, and a change of it should be seen.
    assert pytest_attnmem.__all__ == [
        *("AttentionShape", "AttnMemError", "BackendUnavailable", "BudgetError", "BudgetExceeded"),
        *("Derived", "Formula", "FormulaError", "Growth", "Held", "Measurement", "MemoryModel"),
        *("ModelMemory", "NotEnforced"),
        *("Phase", "SizeError", "check", "compare", "derive", "format_size", "growth", "measure"),
        "model",
        *("parse_formula", "parse_size", "qkv", "region"),
    ]


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(str(pytest_attnmem.__file__)).read_text("utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    names = [
        alias.asname
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    ]
    assert sorted(map(str, names)) == pytest_attnmem.__all__


def test_no_module_takes_the_place_of_a_public_name() -> None:
    modules = {module.name for module in pkgutil.iter_modules(pytest_attnmem.__path__)}
    assert modules & set(pytest_attnmem.__all__) == set()
    assert {"roofline", "profiles", "plugin"} <= modules


def test_dir_lists_every_name_once() -> None:
    listed = dir(pytest_attnmem)
    assert listed == sorted(set(listed))
    assert {*pytest_attnmem.__all__, "__version__"} <= set(listed)


def test_an_unknown_name_is_refused_as_of_any_module() -> None:
    with pytest.raises(AttributeError) as error:
        _ = pytest_attnmem.mesure
    assert str(error.value) == "module 'pytest_attnmem' has no attribute 'mesure'"
    with pytest.raises(ImportError, match="cannot import name 'mesure' from 'pytest_attnmem'"):
        exec("from pytest_attnmem import mesure")


def test_the_version_is_that_of_the_distribution() -> None:
    assert importlib.metadata.version("pytest-attnmem") == pytest_attnmem.__version__


@pytest.mark.parametrize(
    "code",
    [
        "import pytest_attnmem",
        "import pytest_attnmem.plugin",
        "import pytest_attnmem.api.attnmem, pytest_attnmem.report.terminal",
        "from pytest_attnmem import *",
    ],
    ids=["package", "plugin", "library", "every name"],
)
def test_importing_waits_with_what_is_heavy(code: str) -> None:
    assert imported(code, *HEAVY) == []


@pytest.mark.parametrize("name", [name for name in HEAVY if name != "torch"])
def test_what_is_heavy_would_be_noticed(name: str) -> None:
    assert name in imported(f"import pytest_attnmem.plugin, {name}", *HEAVY)


def test_the_library_works_without_pytest() -> None:
    code = (
        "import pytest_attnmem as a\n"
        "measured = a.measure(__import__('torch').ones, 4, backend='cpu')\n"
        "a.check(measured, 16, exact=True)\n"
        "with a.region('scores', '1 KiB', backend='cpu'): a.qkv(1, 1, 2, 2)[0] + 1"
    )
    assert imported(code, "pytest", "torch") == ["torch"]  # whose import is noticed


def test_without_torch_everything_can_be_imported_and_measuring_says_what_it_needs() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import pytest_attnmem.plugin, pytest_attnmem as a\n"
        "try: a.measure(int)\n"
        "except a.BackendUnavailable as error: text = str(error)\n"
        "needs = 'needs torch, which is not installed; pip install torch'\n"
        "if text != f\"backend 'cpu' {needs}\": raise SystemExit(text)\n"
    )
    assert imported(code, "pytest_attnmem.api.attnmem") == ["pytest_attnmem.api.attnmem"]
