"""Torch's version in an environment, and the nearest version that has an entry."""

import pytest

from pytest_attnmem.baselines.torch_version import named, nearest, split


@pytest.mark.parametrize(
    ("environment", "place", "version"),
    [
        ("cpu threads2 torch2.13", "cpu threads2", "2.13"),
        ("cpu threads2", "cpu threads2", ""),  # an earlier pytest-attnmem wrote it
        ("simulated:H100 torch2.15 a:1", "simulated:H100 a:1", "2.15"),
        ("cuda NVIDIA torchlight sm90 torch2.9", "cuda NVIDIA torchlight sm90", "2.9"),
        ("torch2.13", "torch2.13", ""),  # another plugin's backend
    ],
)
def test_an_environment_is_a_place_and_a_version(
    environment: str, place: str, version: str
) -> None:
    assert split(environment) == (place, version)


def test_a_version_is_named() -> None:
    assert named("2.13") == "torch 2.13"
    assert named("") == "an unknown torch"


@pytest.mark.parametrize(
    ("others", "found"),
    [
        (["cpu torch2.9", "cpu torch2.13", "cpu torch2.16"], "cpu torch2.13"),
        (["cpu torch2.9", "cpu torch2.10"], "cpu torch2.10"),  # numbers, not texts
        (["cpu torch2.17", "cpu torch2.16"], "cpu torch2.16"),
        (["cpu", "cpu torch2.13"], "cpu torch2.13"),
        (["cpu"], "cpu"),
        (["cpu torch2.15"], None),  # no other version
        (["cpu threads2 torch2.13", "cuda torch2.13"], None),
        ([], None),
    ],
)
def test_the_nearest_is_the_newest_older_one(others: list[str], found: str | None) -> None:
    assert nearest("cpu torch2.15", others) == found


def test_an_environment_without_a_version_has_no_nearest() -> None:
    assert nearest("scripted", ["scripted torch2.13"]) is None
