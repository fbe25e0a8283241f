"""Which symbol each size of a tensor is, where all sizes of a case are known."""

import pytest

from pytest_attnmem.measurement.held import Held
from pytest_attnmem.sweep.runner import dimensions, with_dimensions

SYMBOLS = {"B": 1, "H": 8, "Hkv": 8, "N": 2048, "M": 2048, "d": 64, "dv": 64, "itemsize": 2}


def test_a_size_that_two_symbols_have_is_neither() -> None:
    symbols = {"B": 1, "H": 8, "N": 64, "M": 64, "d": 64, "dv": 64}
    matrix = Held(4, (1, 8, 64, 64), "float32", "bmm", "")
    assert with_dimensions(matrix, symbols).dims == ()
    assert with_dimensions(matrix, {**symbols, "d": 32, "dv": 32}).dims == ("1", "H", "N", "N")


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((1, 8, 2048, 2048), "B·H·N·N"),
        ((1, 8, 2048, 64), "B·H·N·d"),
        ((1, 8, 64, 2048), "B·H·d·N"),
        ((8, 2048, 64), "H·N·d"),
        ((2048, 2048), "N·N"),
        ((1, 8, 2048), "B·H·N"),
        ((1, 8, 2048, 1), "B·H·N·1"),
        ((1, 1, 2048, 2048), "B·1·N·N"),
        ((1,), "B"),
        ((), ""),
        ((1, 8, 2048, 512), ""),
        ((3, 8), ""),
    ],
    ids=str,
)
def test_sizes_by_their_symbols(shape: tuple[int, ...], text: str) -> None:
    assert "·".join(dimensions(shape, SYMBOLS)) == text


@pytest.mark.parametrize(
    ("symbols", "shape", "text"),
    [
        ({"B": 4, "H": 4, "N": 4, "d": 4}, (4, 4, 4, 4), "B·H·N·d"),
        ({"B": 1, "H": 1, "N": 8, "d": 2}, (1, 1, 8, 8), "B·H·N·N"),
        ({"B": 2, "H": 8, "Hkv": 4, "N": 16, "M": 32, "d": 3}, (2, 4, 32, 3), "B·Hkv·M·d"),
        ({"B": 2, "H": 8, "Hkv": 8, "N": 16, "M": 16, "d": 3, "dv": 3}, (2, 8, 16, 3), "B·H·N·d"),
        ({"B": 2, "itemsize": 4, "window": 5}, (4,), ""),
        ({"B": 2, "itemsize": 4, "window": 5}, (5,), ""),
        ({}, (7,), ""),
        ({}, (1, 1), ""),
    ],
    ids=["in order", "ones", "apart", "defaults", "itemsize", "other", "none", "none of ones"],
)
def test_symbols_of_one_size_are_told_apart_by_their_order(
    symbols: dict[str, int], shape: tuple[int, ...], text: str
) -> None:
    assert "·".join(dimensions(shape, symbols)) == text
