"""The workflow runs the cells of the matrix, with the commands of the Makefile."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
NOXFILE = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
JOBS = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))["jobs"]
SESSIONS = {node.name for node in NOXFILE.body if isinstance(node, ast.FunctionDef)}
CONSTANTS = {
    node.targets[0].id: ast.literal_eval(node.value)
    for node in NOXFILE.body
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
}
COMMANDS = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]


def test_the_workflow_has_every_cell():
    matrix = JOBS["core"]["strategy"]["matrix"]
    assert matrix["python"] == list(CONSTANTS["PYTHONS"])
    assert matrix["torch"] == list(CONSTANTS["TORCHES"])
    left_out = {(cell["python"], cell["torch"]) for cell in matrix["exclude"]}
    assert left_out == CONSTANTS["MISSING"]


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_exist(command):
    program, *arguments = shlex.split(re.sub(r"\$\{\{ matrix\.session \}\}", "floors", command))
    if program == "make":
        assert re.search(rf"^{arguments[0]}:", MAKEFILE, re.MULTILINE)
    else:
        assert [program, *arguments[:2]] == ["uv", "tool", "run"]
        assert f"NOX       := {arguments[2]}\n" in MAKEFILE
        assert arguments[arguments.index("--session") + 1] in SESSIONS


def test_every_session_of_the_matrix_is_run():
    used = {JOBS["plugins"]["strategy"]["matrix"]["session"][0], "plugins", "core"}
    assert used == SESSIONS - {"cell", "run", "check_room"}


@pytest.mark.parametrize(
    "test", [*CONSTANTS["CORE"], *CONSTANTS["SIMULATED"], *CONSTANTS["RECORDED"]]
)
def test_the_core_names_tests_that_exist(test):
    assert (ROOT / test).exists()


def test_the_versions_of_python_are_told_to_users():
    metadata = (ROOT / "pyproject.toml").read_text("utf-8")
    told = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', metadata)
    assert told == list(CONSTANTS["PYTHONS"])


def test_a_report_that_exists_does_not_change_the_rootdir():
    """pytest takes an existing path after an unknown option for a test, and not one after an =."""
    assert re.search(r"--attnmem-html=\$", MAKEFILE)
    assert not re.search(r"--attnmem-[a-z]+ \$", MAKEFILE)
