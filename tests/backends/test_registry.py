import importlib
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from unavailable import refusal

from pytest_attnmem.backends.registry import (
    AUTO,
    BACKENDS,
    BUILT_IN,
    backend_of,
    check_name,
    larger_is_free,
    open_backend,
    registered,
)
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.units import shown

CPU = open_backend("cpu")
BASE = "pytest_attnmem.backends.Backend is a base class with defaults"


def refuse(argument):
    raise BackendUnavailable("not here")


@pytest.mark.parametrize(
    ("members", "free"),
    [
        ({"computes": True}, False),
        ({"computes": False}, True),
        ({"computes": False, "larger_is_free": False}, False),
    ],
)
def test_larger_sizes_are_free_where_no_tensor_has_memory(members, free):
    assert larger_is_free(SimpleNamespace(**members)) is free
    assert not larger_is_free(CPU)
    assert larger_is_free(open_backend("simulated"))


def test_the_part_after_the_colon_is_passed_on():
    seen = []
    open_backend("scripted:a:b", {"scripted": lambda argument: seen.append(argument) or CPU})
    assert seen == ["a:b"]


def test_auto_takes_the_first_that_works_and_a_name_never_falls_back():
    openers = {"cuda": refuse, "accelerator": lambda _: CPU, "cpu": lambda _: "not it"}
    assert open_backend("auto", openers) is CPU
    assert refusal(open_backend, "auto", dict.fromkeys(BACKENDS, refuse)) == "not here"
    assert refusal(open_backend, "cuda", {**BACKENDS, "cuda": refuse}) == "not here"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpu:0", "; did you mean 'cuda'?"),
        ("CPU", "; did you mean 'cpu'?"),
        ("", ""),
        ("x", ""),
        ("H100", "; did you mean null:H100 or simulated:H100?"),
        ("cuda:H100", "; did you mean null:H100 or simulated:H100?"),
        ("gpu:l40s", "; did you mean null:L40S or simulated:L40S?"),
        (
            "A100",
            "; did you mean null:A100-40GB or simulated:A100-40GB or null:A100-80GB or"
            " simulated:A100-80GB?",
        ),
    ],
)
def test_an_unknown_name_lists_the_known(name, hint):
    known = ", ".join(("auto", *BACKENDS))
    text = f"unknown backend '{name}'; expected one of {known}{hint}"
    assert refusal(check_name, name) == text


@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:1", "cuda:80", "accelerator:xpu:0"])
def test_a_number_is_no_name_of_a_device(name):
    check_name(name)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("torch", "backend 'cpu' needs torch, which is not installed; pip install torch"),
        ("x", "backend 'cpu' cannot be opened: ModuleNotFoundError: No module named 'x'"),
    ],
)
def test_without_torch_the_refusal_says_so(module, text):
    def opener(argument):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    assert refusal(open_backend, "cpu", {"cpu": opener}) == text


def fail(argument):
    raise RuntimeError("driver\ngone")


@pytest.mark.parametrize(
    ("opener", "why"),
    [
        (fail, r"RuntimeError: driver\ngone"),
        (
            lambda argument: SimpleNamespace(name="x", device="cpu", kinds=(), symbols={}, prime=1),
            "TypeError: namespace(name='x', device='cpu', kinds=(), symbols={}, prime=1) is not a"
            " backend: missing computes, gauge, forget, tracer, empty_cache, out_of_memory"
            f"; {BASE}",
        ),
        (
            lambda argument: None,
            "TypeError: None is not a backend: missing name, device, computes, kinds, symbols,"
            f" prime, gauge, forget, tracer, empty_cache, out_of_memory; {BASE}",
        ),
    ],
    ids=["raises", "part of one", "nothing"],
)
@pytest.mark.parametrize("name", ["cuda", "auto"])  # auto passes over no device that is broken
def test_an_opener_that_opens_nothing_is_refused_in_one_line(name, opener, why):
    text = refusal(open_backend, name, {**BACKENDS, "cuda": opener})
    assert text == f"backend 'cuda' cannot be opened: {why}"


@pytest.mark.parametrize(
    "found",
    [3, "abc", [], {3: fail}, {"x": 3}, {"": fail}, {"auto": fail}, {"x:y": fail}],
    ids=["a number", "text", "a list", "no name", "no opener", "no text", "auto", "a colon"],
)
def test_a_hook_that_returns_no_openers_is_refused(found):
    assert registered({"mine": fail}) == {"mine": fail}
    assert refusal(registered, found) == (
        f"pytest_attnmem_register_backends returned {shown(found)}; expected a dict of names and"
        " callables, {'mine': opener}, where an opener takes the part of the name after the colon"
    )


@pytest.mark.parametrize(
    ("device", "backend"),
    [("cpu", "cpu"), ("cuda:1", "cuda:1"), ("cuda", "cuda"), ("xpu:0", "accelerator:xpu:0")],
)
def test_a_device_has_its_backend(device, backend):
    assert backend_of(device) == backend


def test_auto_tries_every_backend_but_the_one_that_needs_no_device():
    assert [name for name in AUTO if name in ("cuda", "null", "cpu")] == ["cuda", "null", "cpu"]
    assert "simulated" not in AUTO


@pytest.mark.parametrize("built_in", BUILT_IN, ids=lambda built_in: built_in.name)
def test_each_row_of_the_table_is_a_module(built_in):
    module = importlib.import_module(f"pytest_attnmem.backends.{built_in.name}")
    assert callable(module.open_backend)
    assert hasattr(module, "check") is built_in.checks_device


def test_the_readme_lists_the_names_of_the_table():
    table = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)", row)} == set(BACKENDS)
