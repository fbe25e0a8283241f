"""The switch that keeps the workspaces of libraries outside windows."""

import pytest

from pytest_attnmem.measurement.environment import are_kept, kept_workspaces

VARIABLE = "TORCH_CUBLAS_WORKSPACE_CACHE"


@pytest.mark.parametrize(
    ("version", "environ", "kept"),
    [
        ((2, 13), {}, True),
        ((2, 14), {VARIABLE: "0"}, True),
        ((2, 15), {}, False),
        ((2, 15), {VARIABLE: "0"}, False),
        ((2, 15), {VARIABLE: "1"}, True),
    ],
)
def test_versions_before_2_15_always_keep_workspaces(version, environ, kept):
    assert are_kept(version, environ) is kept


def test_the_body_runs_with_the_switch_on():
    environ = {}
    with kept_workspaces(environ):
        assert environ == {VARIABLE: "1"}
    assert environ == {}


@pytest.mark.parametrize("value", ["0", "1"])
def test_what_the_environment_says_stays(value):
    environ = {VARIABLE: value}
    with kept_workspaces(environ):
        assert environ == {VARIABLE: value}
    assert environ == {VARIABLE: value}
