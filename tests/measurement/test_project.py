"""Which files are the project's, and which a library's."""

import os
import sysconfig
from pathlib import Path

import pytest

from pytest_attnmem.measurement import project
from pytest_attnmem.measurement.project import LIBRARY, OUTSIDE, PROJECT, in_library, standing

STANDARD = sysconfig.get_path("stdlib")
pytestmark = pytest.mark.usefixtures("project_root")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/repo/attn.py", PROJECT),
        ("/srv/repo/src/lib/attn.py", PROJECT),
        ("/srv/other/attn.py", OUTSIDE),
        ("/srv/repository/attn.py", OUTSIDE),
        ("/srv/repo/.venv/lib/python3.11/site-packages/einops/_backends.py", LIBRARY),
        ("/usr/lib/python3/dist-packages/einops/_backends.py", LIBRARY),
        (os.path.join(STANDARD, "copy.py"), LIBRARY),
    ],
)
def test_standing(path, expected):
    assert standing(path) == expected


def test_a_project_among_installed_packages():
    project.set_root(Path("/usr/lib/python3/dist-packages/einops"))
    assert standing("/usr/lib/python3/dist-packages/einops/tests/test_ops.py") == PROJECT
    assert standing("/usr/lib/python3/dist-packages/numpy/core.py") == LIBRARY


def test_the_file_of_a_library():
    assert in_library("/x/site-packages/einops/_backends.py") == "einops/_backends.py"
    assert in_library("/usr/lib/python3.11/copy.py") == "copy.py"
