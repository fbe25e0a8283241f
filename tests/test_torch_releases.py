"""The versions of PyTorch whose rules are written down."""

import pytest

from pytest_attnmem.torch_releases import KNOWN, minor_version, rules_version


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


@pytest.mark.parametrize(
    ("release", "version"), [("2.16.0", (2, 15)), ("2.14.1", (2, 14)), ("2.12.0", (2, 13))]
)
def test_a_release_has_the_rules_of_the_newest_version_before_it(release, version):
    assert rules_version(release) == version


def test_the_known_versions_are_in_order():
    assert KNOWN == ((2, 13), (2, 14), (2, 15))
