"""Every kernel's docstring has a line with its order and paper, and its model keeps to it."""

from __future__ import annotations

import inspect
import itertools
import re

import pytest

from pytest_attnmem.budgets.growth_fit import Growth
from pytest_attnmem.kernels import KERNELS, decode, ring
from pytest_attnmem.symbols.attention_shape import Source, gather

LINE = re.compile(
    r"^    (?P<memory>O\(.+?\)) memory(, O\(.+\) if the cache grows)?, O\(.+\) time:"
    r" \w.*, \d{4} \(arXiv \d{4}\.\d{5}\)[.,;]",
    re.MULTILINE,
)
MODELS = {
    **{kernel.name: (kernel.attention, kernel.model) for kernel in KERNELS},
    "ring": (ring.attention, ring.MODEL),
}
#: Options that an order names, at sizes that the lengths are multiples of.
OPTIONS = {"block": 64, "window": 64, "active": 7, "R": 4}
#: Roots of lengths. Chunks and strides are as long by default, and never shorter than 128.
ROOTS = range(128, 577, 64)
LENGTHS = (256, 512, 768, 1024, 1280)
WIDTHS = (64, 128, 192, 256, 320)


def memory(attention):
    """The order of a kernel's memory, as a contract on the root of the length is written."""
    (line,) = LINE.finditer(attention.__doc__)
    written = line["memory"].replace("·", "*").replace("²", "^2").replace("N", "(root^2)")
    for name, size in OPTIONS.items():
        written = re.sub(rf"\b{name}\b", str(size), written)
    return written


@pytest.mark.parametrize("name", [*MODELS, "decode"])
def test_a_line_has_the_order_and_the_paper(name):
    attention = decode.attention if name == "decode" else MODELS[name][0]
    (line,) = LINE.finditer(attention.__doc__)
    assert inspect.getdoc(attention).split("\n\n")[-1].startswith(line["memory"])


@pytest.mark.parametrize("mode", ["forward", "training"])
@pytest.mark.parametrize("name", MODELS)
def test_the_model_grows_no_faster(name, mode):
    attention, model = MODELS[name]
    known = {"B": 1, "H": 2, "dtype": "float32", **OPTIONS}
    known |= {"causal": int(name.startswith("linear-"))}

    def at(root, d):
        shape = gather([Source("the test", {**known, "N": root**2, "d": d})])
        return getattr(model, mode).peak(shape)

    peaks = {(root, d): at(root, d) for root, d in itertools.product(ROOTS, WIDTHS)}
    Growth({"root": tuple(ROOTS), "d": WIDTHS}, peaks).assert_within(memory(attention))


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_a_step_grows_with_the_cache(heads):
    def at(model, M, d):
        known = {"B": 1, "H": 8, "Hkv": heads, "N": 1, "M": M, "d": d, "dtype": "float32"}
        return model.peak(gather([Source("the test", known)]))

    for model, contract in ((decode.STATIC, "O(M)"), (decode.GROWING, "O(M*d)")):
        peaks = {(M, d): at(model, M, d) for M, d in itertools.product(LENGTHS, WIDTHS)}
        Growth({"M": LENGTHS, "d": WIDTHS}, peaks).assert_within(contract)
