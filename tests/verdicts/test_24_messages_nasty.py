"""Whatever stands in a marker, a call or on a command line: one line, and no traceback."""

import contextlib
from fractions import Fraction

import numpy as np
import pytest
import torch

from pytest_attnmem.api.comparison import _limit
from pytest_attnmem.api.derive import derive
from pytest_attnmem.budgets.budget import resolve
from pytest_attnmem.budgets.parsing import parse
from pytest_attnmem.cli import main
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.measurement.qkv_inputs import qkv
from pytest_attnmem.plugin.markers import backend_name
from pytest_attnmem.symbols.attention_shape import Source, gather

LOOP: list[object] = []
LOOP.append(LOOP)


class Rude:
    def __repr__(self):
        raise RuntimeError("no")


TEXTS = (
    *("", " ", "\n", "\udc80", "５", "٥%", "-1", "nan", "inf", "1e9", "1e999999999", "64 MB"),
    *("O(N)", "O()", "O(", "O(N^N)", "N.real", "%s%n", "{0.__class__}", "__import__('os')"),
    *("9" * 5000, "(" * 5000, "x" * 5000, "9**9**9", "cuda:x", "cpu:99999999999999999999", "a:b:c"),
    *("simulated:", "simulated:H1000", "accelerator:", ":", "N=", "1,,2", "-", "--"),
)
VALUES = (
    *(*TEXTS, None, True, -1, 5, 10**5000, 0.5, 5.0, float("nan"), float("inf"), 1j),
    *(Fraction(1, 3), Fraction(10**5000, 3), b"64", [], LOOP, (1, 2), {}, {"cuda": {}}, {None: 1}),
    *({"default": LOOP}, set(), object(), int, len, lambda s: 1 / 0, lambda s: s.nope),
    *(lambda s: LOOP, Rude(), Rude, np.int64(5), np.float64(0.5), np.array([1, 2])),
    *(torch.ones(3), torch.float16, torch.device("cpu"), ..., range(5), ValueError("x\ny")),
)
SHAPE = gather([Source("test", {"B": 1, "H": 2, "N": 4, "d": 8, "itemsize": 4})])


def check_one_line(call):
    """Call it, and assert that a refusal is one line of bounded length."""
    message = "accepted"
    try:
        call()
    except AttnMemError as error:
        message = str(error)
    assert len(message.splitlines()) == 1
    assert len(message) < 1200


def check_given(function, argument, value, **others):
    check_one_line(lambda: function(**{**others, argument: value}))


def marked(**keywords):
    spec = parse((), keywords)
    backend_name(spec)
    resolve(spec, gather([Source("the marker", spec.symbols), Source("it", SHAPE.symbols)]), ())


@pytest.mark.parametrize(
    "argument",
    ["limit", "metric", "tolerance", "exact", "backend", "device", "warmup", "N", "dtype", "zzz"],
)
def test_a_marker(argument):
    for value in VALUES:
        check_given(marked, argument, value, limit="2*N")


def test_a_comparison():
    for value in VALUES:
        check_one_line(lambda value=value: _limit(1000, value, None, SHAPE, "base"))
        check_one_line(lambda value=value: _limit(1000, None, value, SHAPE, "base"))


@pytest.mark.parametrize(
    "argument", ["B", "d", "Hkv", "dtype", "device", "requires_grad", "seed", "zzz"]
)
def test_inputs(argument):
    for value in VALUES:
        check_given(qkv, argument, value, B=1, H=2, N=4, d=8)


@pytest.mark.parametrize("argument", ["fn", "shape", "dtype", "backend", "sizes"])
def test_derive(argument):
    def derived(fn, shape, **options):
        derive(fn, shape, **options)

    for value in VALUES:
        if not (argument == "fn" and callable(value)):
            check_given(derived, argument, value, fn=lambda q: None, shape="N d")


SIZES = ["--B", "1", "--H", "1", "--N", "8", "--d", "8"]
MODEL = ["--params", "7e9", "--layers", "2", "--d-model", "64", "--heads", "4"]
#: Commands that end before they simulate or write anything, and their options.
COMMANDS = {
    "predict": (
        ["standardd", *SIZES],
        ["--B", "--H", "--N", "--M", "--d", "--dv", "--Hkv", "--dtype", "--device"],
    ),
    "max-length": (["standardd", *SIZES[:4], "--d", "8"], ["--B", "--d", "--dtype", "--device"]),
    "roofline": (
        MODEL,
        [
            *("--params", "--layers", "--kv-heads", "--head-dim", "--mla", "--dtype", "--kv-dtype"),
            *("--kv-group", "--batch", "--seq-len", "--device", "--bandwidth", "--compute"),
            *("--memory", "--plot"),
        ],
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command(command, few, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, options = COMMANDS[command]
    for at, option in enumerate(options):
        for text in few((*TEXTS[at:], *TEXTS[:at]), lambda text: None):
            capsys.readouterr()
            with contextlib.suppress(SystemExit):  # argparse's own refusal
                code = main([command, *arguments, f"{option}={text}"])
                told = capsys.readouterr().err
                assert code in (0, 2)
                assert len(told.splitlines()) == (code == 2)
                assert len(told) < 1200
