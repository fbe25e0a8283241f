"""The matrix, a session a cell: ``make matrix`` runs the cells whose Python is on this machine.

``nox --list`` names the cells, and ``nox --tags main`` runs the ones that CI runs on each change.
uv makes the environments; with ``UV_TORCH_BACKEND=cpu`` it takes the builds of torch without CUDA.
"""

import itertools
import os
import shutil
import subprocess

import nox

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
TORCHES = ("2.13.0", "2.14.1", "2.15.0")
PYTESTS = ("8.0.0", "8.4.2", "9.2.0")
#: There is no such build.
MISSING = {("3.10", "2.15.0")}
MAIN = ("3.11", "2.15.0", "9.2.0")
#: The build with CUDA takes 5.5 GB.
ROOM_GIB = 8

#: What a version of Python, torch, pytest or a plugin can break, in about a minute.
CORE = (
    "tests/test_platforms.py",
    "tests/test_public_api.py",
    "tests/backends/test_cpu.py",
    "tests/backends/test_cpu_threads.py",
    "tests/backends/test_timelines.py",
    "tests/baselines",
    "tests/budgets/test_budget.py",
    "tests/budgets/test_verdict.py",
    "tests/measurement",
    "tests/plugin/test_baseline.py",
    "tests/plugin/test_failure_text.py",
    "tests/plugin/test_hooks.py",
    "tests/plugin/test_kinds_of_tests.py",
    "tests/plugin/test_markers.py",
    "tests/plugin/test_other_options.py",
    "tests/plugin/test_outcomes.py",
    "tests/plugin/test_reruns.py",
    "tests/plugin/test_second_run.py",
    "tests/plugin/test_silence.py",
    "tests/plugin/test_without_torch.py",
    "tests/plugin/test_xdist.py",
    "tests/report/test_json.py",
    "tests/report/test_terminal.py",
)
SIMULATED = ("tests/plugin/test_growth.py", "tests/plugin/test_simulated.py")
#: The recordings of a version of torch and published numbers, which its rules are held to, and
#: indices, whose C++ code is written anew in Python for a version.
RECORDED = (
    "tests/backends/simulated/attention",
    "tests/backends/simulated/scratch",
    "tests/backends/simulated/test_device.py",
    "tests/backends/simulated/test_published.py",
    "tests/backends/simulated/test_random_programs.py",
    "tests/backends/simulated/test_transforms.py",
    "tests/backends/simulated/test_whole_programs.py",
    "tests/backends/simulated/test_workloads.py",
)

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False

# The PATH has the commands of all versions that pyenv installed, but only the selected ones work.
if shutil.which("pyenv"):
    versions = subprocess.check_output(["pyenv", "versions", "--bare"], text=True).split()
    os.environ.setdefault("PYENV_VERSION", ":".join(versions))


def cell(python: str, torch: str, pytest: str) -> nox.param:
    """Returns a cell, to be selected by its torch or as one of the main cells."""
    tags = [f"torch-{torch}", *(["main"] if (python, torch, pytest) == MAIN else [])]
    name = f"Python {python}, torch {torch}, pytest {pytest}"  # also of the environment's folder
    return nox.param(python, torch, pytest, id=name, tags=tags)


@nox.session
@nox.parametrize(
    ("python", "torch", "pytest"),
    [
        cell(python, torch, pytest)
        for python, torch, pytest in itertools.product(PYTHONS, TORCHES, PYTESTS)
        if (python, torch) not in MISSING
    ],
)
def core(session: nox.Session, torch: str, pytest: str) -> None:
    """The core on one version of each."""
    check_room(session)
    session.install(f"torch=={torch}", f"pytest=={pytest}", "--editable", ".[test]")
    run(session, pytest, *CORE, *SIMULATED, *(() if torch == TORCHES[0] else RECORDED))


@nox.session(python=PYTHONS[0], tags=["main"])
def floors(session: nox.Session) -> None:
    """The core on the oldest version that each requirement allows."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *extras["torch"], *extras["plot"]]
    lowest = [requirement.replace(">=", "==") for requirement in required]
    session.install(*lowest, "--editable", ".[test]")
    run(session, PYTESTS[0], *CORE, *SIMULATED)


@nox.session(python="3.13", tags=["main"])
def plugins(session: nox.Session) -> None:
    """The core and the examples under the newest plugins, all at once and in any order."""
    more = ("pytest-cov", "pytest-randomly")
    session.install(f"torch=={TORCHES[0]}")
    session.install("--upgrade", "--editable", ".[test]", *more, "torch<2.14")
    session.env["COVERAGE_FILE"] = os.path.join(session.virtualenv.location, "coverage")
    active = ("--cov=pytest_attnmem", "--cov-report=", "--timeout=300")
    run(session, "", *active, *CORE, *SIMULATED)
    here = ("examples", "--ignore", "examples/compiled")  # without CUDA, those are not enforced
    session.run("python", "-m", "pytest", *here, "--attnmem-strict=all", *active)


def run(session: nox.Session, pytest: str, *arguments: str) -> None:
    """Runs tests with two workers."""
    if pytest.startswith("8.0"):
        # pytest-asyncio for 8.0 leaves a loop open, which is found where garbage is collected.
        arguments = ("-W", "ignore::pytest.PytestUnraisableExceptionWarning", *arguments)
    workers = ("-n", "2", "--dist", "loadfile")
    session.run("python", "-m", "pytest", "-q", *workers, *arguments, *session.posargs)


def check_room(session: nox.Session) -> None:
    """Leaves a cell out where the disk is too small for it."""
    free = shutil.disk_usage(".").free // 1024**3
    if free < ROOM_GIB:
        session.skip(f"torch needs up to {ROOM_GIB} GiB of disk, and {free} are free")
