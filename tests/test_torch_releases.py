"""The releases of PyTorch whose rules are known."""

import pytest

from pytest_attnmem.torch_releases import FINGERPRINTS, KNOWN, RELEASES, minor_version, no_rules

COMMIT = RELEASES["2.15.0"]


def unasked():
    raise AssertionError("a release is known without its fingerprint")


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


def test_every_known_version_has_a_fingerprint():
    assert tuple(FINGERPRINTS) == KNOWN
    assert len({*FINGERPRINTS.values()}) == len(KNOWN)


@pytest.mark.parametrize("build", ["", "+cpu", "+cu132", "+rocm7.0", "+cxx11.abi"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_release_is_known_by_its_commit_alone(release, build):
    assert no_rules(release + build, RELEASES[release], unasked) == ""


@pytest.mark.parametrize(
    ("version", "commit"),
    [
        ("2.15.0", None),
        ("2.15.0", ""),
        ("2.15.0+cpu", "Unknown"),
        ("2.15.0", RELEASES["2.14.1"]),
        ("2.15.1", "0" * 40),
        ("2.15.1", None),
        ("2.15.0.post2", COMMIT),
    ],
)
def test_another_build_of_a_known_version_is_known_by_its_operators(version, commit):
    assert no_rules(version, commit, lambda: FINGERPRINTS[2, 15]) == ""
    for other in (FINGERPRINTS[2, 14], ""):
        assert no_rules(version, commit, lambda other=other: other) != ""


@pytest.mark.parametrize(
    ("version", "commit", "named"),
    [
        ("2.16.0", COMMIT, "2.16"),
        ("2.16.3+cu140", "", "2.16"),
        ("2.12.1", None, "2.12"),
        ("3.0.0", COMMIT, "3.0"),
        ("9.9", None, "9.9"),
        ("2.16.0.dev20261101+cu132", COMMIT, "2.16.0.dev20261101+cu132"),
        ("2.15.0rc2", COMMIT, "2.15.0rc2"),
        ("2.15.0a0+3f75579.nv26.10", COMMIT, "2.15.0a0+3f75579.nv26.10"),
        ("2.15.0+gitd0f2af8", COMMIT, "2.15.0+gitd0f2af8"),
        ("master", None, "master"),
    ],
)
def test_an_unknown_version_and_a_build_between_releases_are_never_known(version, commit, named):
    text = no_rules(version, commit, unasked)
    assert text == f"no rules for torch {named}; known: 2.13 to 2.15"


@pytest.mark.parametrize(
    ("version", "commit", "named"),
    [
        ("2.15.0", "1a2b3c4d5e6f", "2.15.0 (commit 1a2b3c4d5)"),
        ("2.13.0+cpu", RELEASES["2.15.0"], "2.13.0+cpu (commit d0f2af8b6)"),
        ("2.15.0", None, "2.15.0 (commit unknown)"),
        ("2.15.0", "", "2.15.0 (commit unknown)"),
        ("2.15.0", "Unknown", "2.15.0 (commit unknown)"),
        ("2.15.1", "1a2b3c4d5e6f", "2.15.1"),
        ("2.15.0.post1", "1a2b3c4d5e6f", "2.15.0.post1"),
    ],
)
def test_a_build_with_other_operators_is_named_by_what_differs(version, commit, named):
    text = no_rules(version, commit, lambda: "other")
    assert text == f"no rules for torch {named}; known: 2.13 to 2.15"
