"""The code of a test is read for the device that it names; nothing of it runs."""

import types
from pathlib import Path

import pytest

from pytest_attnmem.plugin.named_devices import names_cuda

DEVICE = "cuda"
HOST = "cpu"
CONFIG = types.ModuleType("config_of_the_suite")
CONFIG.device = "cuda:0"


class device:  # as torch.device is called
    def __init__(self, type):
        self.type = type


DEVICE_OBJECT = device("cuda")


class Item:
    """A test, as far as its code is read."""

    def __init__(self, obj, cls=None, **funcargs):
        self.obj, self.cls, self.funcargs = obj, cls, funcargs
        self.path = Path(__file__)
        self.config = types.SimpleNamespace(stash=pytest.Stash())


def moves_by_method(x):
    return x.cuda()


def moves_by_name(x):
    return x.to("cuda:1")


def makes_by_keyword(torch):
    return torch.ones(3, device=DEVICE)


def makes_by_object(torch):
    return torch.ones(3, device=DEVICE_OBJECT)


def makes_by_default(torch, where="cuda"):
    return torch.ones(3, device=where)


def makes_in_a_block(torch):
    with torch.device("cuda"):
        return torch.ones(3)


def reads_a_module(torch):
    return torch.ones(3, device=CONFIG.device)


def calls_a_function(x):
    return moves_by_method(x)


def defines_a_function(x):
    def inner():
        return x.to(DEVICE)

    return inner()


class Layer:
    def forward(self, x):
        return x.cuda()


def makes_a_layer(x):
    return Layer().forward(x)


@pytest.mark.parametrize(
    "function",
    [
        *(moves_by_method, moves_by_name, makes_by_keyword, makes_by_object, makes_by_default),
        *(makes_in_a_block, reads_a_module, calls_a_function, defines_a_function, makes_a_layer),
    ],
)
def test_code_that_names_the_device(function):
    assert names_cuda(Item(function))


def uses_no_name(x):
    return (x * 2).sum()


def names_the_host(torch):
    return torch.ones(3, device=HOST).to("cpu")


def asks_for_settings(torch):
    torch.cuda.synchronize()
    torch.cuda.set_device("cuda:0")
    with torch.autocast("cuda"), torch.amp.autocast("cuda"):
        return torch.backends.cuda.matmul.allow_tf32


def compares(x):
    return x.device.type == "cuda" or x.device.type in ("cuda", DEVICE)


def mentions(x):
    """Runs on cuda."""
    return x, "the cuda device"


@pytest.mark.parametrize(
    "function", [uses_no_name, names_the_host, asks_for_settings, compares, mentions]
)
def test_code_that_puts_nothing_there(function):
    assert not names_cuda(Item(function))


def uses_an_argument(torch, where):
    return torch.ones(3, device=where)


@pytest.mark.parametrize("where", ["cuda", "cpu", device("cuda"), device("cpu"), None, 0])
def test_an_argument_of_the_test(where):
    on_cuda = where == "cuda" or getattr(where, "type", "") == "cuda"
    assert names_cuda(Item(uses_an_argument, where=where)) is on_cuda


class Case:
    where = "cuda"

    def setUp(self):
        self.x = self.made().cuda()

    def made(self):
        return self.x

    def test(self):
        return self.x * 2


class Attribute:
    where = "cuda"

    def test(self):
        return self.made()

    def made(self):
        return self.where


@pytest.mark.parametrize("cls", [Case, Attribute])
def test_what_a_class_sets_up(cls):
    assert names_cuda(Item(cls().test, cls))


def test_code_that_nobody_can_read():
    scope = {}
    exec("def made(x): return x.cuda()", scope)
    assert not names_cuda(Item(scope["made"]))
    assert not names_cuda(Item(None))
    assert not names_cuda(Item(len))


def written(folder, name, expression):
    """Returns a function of a file, whose text can be read."""
    file = folder / f"{name}.py"
    file.write_text(f"def made(x):\n    return {expression}\n", "utf-8")
    scope = {"__name__": name}
    exec(compile(file.read_text("utf-8"), file, "exec"), scope)
    return scope["made"]


def test_objects_that_raise_when_they_are_looked_at():
    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError("outside of a request")

    current = Proxy()

    def looks_at_it():
        return current

    def of_a_signature():
        return None

    of_a_signature.__signature__ = "none"
    assert not names_cuda(Item(looks_at_it))
    assert not names_cuda(Item(of_a_signature))


def test_an_expression_of_hundreds_of_calls(tmp_path):
    assert names_cuda(Item(written(tmp_path, "short", "x" + ".abs()" * 20 + ".cuda()")))
    assert not names_cuda(Item(written(tmp_path, "deep", "x" + ".abs()" * 700)))


def test_each_comparison_is_read_once(tmp_path):
    """Reading twice at each of 60 levels would never end."""
    nested = "x(" * 60 + "1" + " == 1)" * 60
    assert not names_cuda(Item(written(tmp_path, "nested", nested)))


class Siblings:
    def test_host(self):
        return self.made()

    def made(self):
        return 1

    def test_device(self):
        return "cuda"


def test_another_test_of_the_class_does_not_count():
    assert not names_cuda(Item(Siblings().test_host, Siblings))
    assert names_cuda(Item(Siblings().test_device, Siblings))


def calls_itself(n):
    return calls_the_other(n - 1)


def calls_the_other(n):
    return calls_itself(n - 1)


def test_functions_that_call_each_other():
    assert not names_cuda(Item(calls_itself))


def test_the_code_of_a_library():
    def uses(x):
        return moves_by_method(x), Layer()

    item = Item(uses)
    assert names_cuda(item)
    item.path = Path(__file__).parent / "deeper" / "test_it.py"
    assert not names_cuda(item)


def test_the_device_of_the_fixture():
    def uses(torch, attnmem):
        return torch.ones(3, device=attnmem.device)

    attnmem = types.SimpleNamespace(device="cuda")
    assert names_cuda(Item(uses, attnmem=attnmem))
    assert not names_cuda(Item(uses, attnmem=types.SimpleNamespace(device="cpu")))
