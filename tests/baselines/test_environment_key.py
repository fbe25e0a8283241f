"""The part of the environment that memory depends on."""

import sys
from types import SimpleNamespace

import pytest

from pytest_attnmem.baselines.environment_key import depends_on, named, nearest, split
from pytest_attnmem.measurement.environment import SETTINGS


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that has two devices."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    names = {"cuda:0": "NVIDIA H100  80GB HBM3", "cuda:1": "NVIDIA A100-SXM4-80GB"}
    capabilities = {"cuda:0": (9, 0), "cuda:1": (8, 0)}
    cuda = SimpleNamespace(
        get_device_name=names.__getitem__, get_device_capability=capabilities.__getitem__
    )
    monkeypatch.setenv("TORCH_CUBLAS_WORKSPACE_CACHE", "1")
    monkeypatch.setitem(
        sys.modules,
        "torch",
        SimpleNamespace(__version__="2.13.1+cu130", cuda=cuda, get_num_threads=lambda: 2),
    )


KEPT = {"TORCH_CUBLAS_WORKSPACE_CACHE": "1"}


@pytest.mark.parametrize(
    ("backend", "device", "version", "variables", "environment"),
    [
        ("cpu", "cpu", "2.13.1+cu130", KEPT, "cpu threads1 torch2.13"),
        ("cpu", "cpu", "2.15.0", {}, "cpu threads1 torch2.15"),
        ("simulated:A100-80GB", "cuda:0", "2.13.1", KEPT, "simulated:A100-80GB torch2.13"),
        ("simulated:H100", "cuda:0", "2.15.0", KEPT, "simulated:H100 torch2.15"),
        ("simulated:H100", "cuda:0", "2.16.0a0+git1f2e", KEPT, "simulated:H100 torch2.16"),
        ("simulated:H100", "cuda:0", "9.9", KEPT, "simulated:H100 torch9.9"),
        ("simulated:H100", "cuda:0", "2.15.0", {}, "simulated:H100 torch2.15 workspaces-in"),
        ("simulated:H100", "cuda:0", "2.14.1", {}, "simulated:H100 torch2.14"),
        ("cuda", "cuda:0", "2.13.1", KEPT, "cuda NVIDIA H100 80GB HBM3 sm90 torch2.13"),
        ("cuda", "cuda:1", "2.13.1", KEPT, "cuda NVIDIA A100-SXM4-80GB sm80 torch2.13"),
        ("null:H100", "cuda:0", "2.13.1", KEPT, "null:H100 sm90 torch2.13"),
        ("null:H100", "cuda:0", "2.15.0", {}, "null:H100 sm90 torch2.15 workspaces-in"),
        ("accelerator", "xpu:1", "2.13.1", KEPT, "accelerator xpu torch2.13"),
        ("scripted", "scripted", "2.13.1", KEPT, "scripted"),
    ],
)
@pytest.mark.usefixtures("torch")
def test_the_key_of_each_backend(
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    device: str,
    version: str,
    variables: dict[str, str],
    environment: str,
) -> None:
    monkeypatch.setattr(sys.modules["torch"], "__version__", version)
    if not variables:
        monkeypatch.delenv("TORCH_CUBLAS_WORKSPACE_CACHE")
    assert depends_on(backend, device) == environment


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    ("backend", "counts"), [("cuda", True), ("simulated:H100", True), ("cpu", False)]
)
@pytest.mark.usefixtures("torch")
def test_the_allocators_configuration_counts_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, name: str, backend: str, counts: bool
) -> None:
    plain = depends_on(backend, "cuda:0")
    monkeypatch.setenv(name, "b:1, a:2")
    assert depends_on(backend, "cuda:0") == (f"{plain} a:2,b:1" if counts else plain)
    monkeypatch.setenv(name, "")
    assert depends_on(backend, "cuda:0") == plain


def test_without_torch_the_backend_alone_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert depends_on("cpu", "cpu") == "cpu"


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
