"""The backend of ``attnmem bisect`` and ``history`` is that of the project's ini file."""

import pytest

from pytest_attnmem.cli import main
from pytest_attnmem.cli.commit_backend import DEFAULT, backend_at
from pytest_attnmem.commits.repository import Repository
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.plugin.project_backend import given_backend

from ..commits.repositories import Step, repository

OPTIONS = "[tool.pytest.ini_options]\n"
TEST = "import torch\n\ndef test_a(): torch.ones({})\n"


@pytest.mark.parametrize(
    ("files", "backend"),
    [
        ({}, DEFAULT),
        ({"pytest.ini": "[pytest]\nattnmem_backend = auto\n"}, DEFAULT),
        ({"pytest.ini": "[pytest]\nattnmem_backend = cpu\n"}, "cpu"),
        ({"pyproject.toml": f"{OPTIONS}attnmem_backend = 'null:T4'\n"}, "null:T4"),
        ({"tox.ini": "[pytest]\nattnmem_backend = cpu\n"}, "cpu"),
        ({"setup.cfg": "[tool:pytest]\nattnmem_backend = cpu\n"}, "cpu"),
        ({"pytest.ini": "[pytest]\naddopts = -q --attnmem-backend cpu\n"}, "cpu"),
        ({"tests/pytest.ini": "[pytest]\nattnmem_backend = cpu\n"}, "cpu"),
        ({"other/pytest.ini": "[pytest]\nattnmem_backend = cpu\n"}, DEFAULT),
    ],
)
def test_it_is_the_one_that_pytest_reads(tmp_path, files, backend):
    old = Step({"pytest.ini": "[pytest]\nattnmem_backend = cuda\n", "tests/test_a.py": ""})
    new = Step({"pytest.ini": None, **files})
    found = Repository(repository(tmp_path / "r", [old, new]))
    end = found.resolved("HEAD")
    assert backend_at(found, end, ["-k", "a", "tests/test_a.py::test_a"]) == backend


def test_an_unknown_one_is_one_line(tmp_path):
    step = Step({"pytest.ini": "[pytest]\nattnmem_backend = mine\n"})
    found = Repository(repository(tmp_path / "r", [step]))
    end = found.resolved("HEAD")
    with pytest.raises(AttnMemError) as error:
        backend_at(found, end, [])
    assert str(error.value).startswith(
        f"attnmem_backend of {end[:10]}: unknown backend 'mine'; expected one of auto, "
    )


@pytest.mark.parametrize(
    ("words", "backend"),
    [
        (["tests", "-k", "attnmem-backend"], ""),
        (["--attnmem-backend=cpu", "tests", "--attnmem-backend", "null"], "null"),
        (["--attnmem-backend"], ""),
    ],
)
def test_the_last_of_pytests_words_counts(words, backend):
    assert given_backend(words) == backend


def test_a_history_says_what_it_was_measured_on(tmp_path, monkeypatch, capsys):
    """``test_bisect.py`` has the backend that bisecting takes from the ini file."""
    settings = {"pytest.ini": "[pytest]\nattnmem_backend = cpu\n"}
    steps = [Step({"test_a.py": TEST.format(size), **settings}) for size in ("10", "5 + 5")]
    monkeypatch.chdir(repository(tmp_path / "r", steps))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["history", "--tests-from", "each"]) == 0
    assert capsys.readouterr().out.startswith("r: 2 of 2 commits measured; cpu, torch ")
