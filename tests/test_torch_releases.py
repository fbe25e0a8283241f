"""The releases of PyTorch whose rules are known."""

import pytest
import torch

from pytest_attnmem.torch_releases import KNOWN, RELEASES, minor_version


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ("2.15.0+cu132", (2, 15)),
        ("2.13.0", (2, 13)),
        ("2.16.0.dev20261101", (2, 16)),
        ("10.2.1a0+git12", (10, 2)),
        ("master", (0, 0)),
    ],
)
def test_a_minor_version(release, version):
    assert minor_version(release) == version


def test_the_known_versions_are_in_order():
    assert KNOWN == ((2, 13), (2, 14), (2, 15))


def test_the_commit_of_this_release_is_its_own():
    release = torch.__version__.partition("+")[0]
    assert RELEASES[release] == torch.version.git_version
