import pytest

from pytest_attnmem import backends
from pytest_attnmem.backends import BACKENDS, backend_of, check_name, open_backend
from pytest_attnmem.errors import BackendUnavailable


def refuse(argument):
    raise BackendUnavailable("not here")


def test_a_name_opens_its_backend():
    assert open_backend("cpu").device == "cpu"


def test_what_stands_after_the_colon_is_handed_on():
    seen = []
    open_backend("scripted:a:b", {"scripted": seen.append})
    assert seen == ["a:b"]


def test_auto_takes_the_first_that_works():
    openers = {"cuda": refuse, "accelerator": lambda _: "it", "cpu": lambda _: "not it"}
    assert open_backend("auto", openers) == "it"


def test_auto_that_finds_nothing_says_why_the_last_refused():
    with pytest.raises(BackendUnavailable, match="not here"):
        open_backend("auto", dict.fromkeys(BACKENDS, refuse))


def test_a_backend_asked_for_by_name_never_falls_back():
    with pytest.raises(BackendUnavailable, match="not here"):
        open_backend("cuda", {**BACKENDS, "cuda": refuse})


@pytest.mark.parametrize("name", ["gpu", "", "CPU", "gpu:0"])
def test_an_unknown_name_lists_the_known(name):
    text = f"unknown backend '{name}'; expected one of auto, cuda, accelerator, cpu"
    with pytest.raises(BackendUnavailable) as refused:
        check_name(name)
    assert str(refused.value) == text


def test_without_torch_the_refusal_says_so():
    def opener(argument):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    text = "backend 'cpu' needs torch, which is not installed; pip install torch"
    with pytest.raises(BackendUnavailable, match=text):
        open_backend("cpu", {"cpu": opener})


def test_another_missing_module_is_not_taken_for_torch():
    def opener(argument):
        raise ModuleNotFoundError("No module named 'x'", name="x")

    with pytest.raises(ModuleNotFoundError):
        open_backend("cpu", {"cpu": opener})


@pytest.mark.parametrize(
    ("device", "backend"),
    [("cpu", "cpu"), ("cuda:1", "cuda:1"), ("cuda", "cuda"), ("xpu:0", "accelerator:xpu:0")],
)
def test_a_device_has_its_backend(device, backend):
    assert backend_of(device) == backend


def test_auto_tries_what_there_is():
    assert set(backends.AUTO) == set(BACKENDS)
