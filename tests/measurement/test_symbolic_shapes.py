"""The shapes of tensors in symbols, proved by runs at other sizes."""

import pytest

from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.measurement import Measurement
from pytest_attnmem.measurement.symbolic_shapes import Elsewhere, product, proved
from pytest_attnmem.measurement.traced_tensors import TracedTensors

SIZES = {"B": 2, "N": 256}


def tensor(*shape: int, where: str = "a.py:1") -> Held:
    return Held(4, shape, "float32", "empty", where)


def traced(*tensors: Held) -> TracedTensors:
    numbers = tuple(range(len(tensors)))
    return TracedTensors(tuple(zip(numbers, tensors, strict=True)), numbers, ())


def dims(own: list[Held], *others: tuple[str, int, list[Held]]) -> list:
    measured = Measurement("cpu", "cpu", 4, 4, None, 0, 1, held=tuple(own), tensors=traced(*own))
    elsewhere = [Elsewhere(symbol, size, traced(*made)) for symbol, size, made in others]
    return [one.dims for one in proved(measured, SIZES, elsewhere).held]


@pytest.mark.parametrize(
    ("size", "at_half", "at_batch_of_3", "text"),
    [
        (256, 128, 256, "N"),
        (256, 256, 256, "256"),
        (512, 256, 512, "2*N"),
        (128, 64, 128, "N/2"),
        (512, 256, 768, "B*N"),
        (65536, 16384, 65536, "N^2"),
        (257, 129, 257, "N + 1"),
        (255, 127, 255, "N - 1"),
        (0, 0, 0, "0"),
        (256, 200, 256, None),
        (513, 257, 769, None),
    ],
)
def test_a_dimension(size, at_half, at_batch_of_3, text) -> None:
    found = dims([tensor(size)], ("N", 128, [tensor(at_half)]), ("B", 3, [tensor(at_batch_of_3)]))
    assert found == [(text,) if text is not None else ()]


@pytest.mark.parametrize(
    ("own", "others", "found"),
    [
        ([256, 128], [("N", 128, [tensor(128), tensor(128)])], [("N",), ("128",)]),
        ([256, 256], [], [(), ()]),  # without another size
        # Different numbers of blocks must have one shape.
        ([64] * 4, [("N", 128, [tensor(64)] * 2)], [("64",)] * 4),
        ([64] * 4, [("N", 96, [tensor(64), tensor(32)])], [()] * 4),
        ([256], [("N", 128, [tensor(128, where="a.py:2")])], [()]),  # another line
    ],
)
def test_tensors_of_one_line_are_paired_in_their_order(own, others, found) -> None:
    assert dims([tensor(size) for size in own], *others) == found


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("B", "H", "N", "N"), "B·H·N·N"),
        (("1", "4", "N", "N"), "4·N·N"),
        (("B*H", "N + 1", "8"), "B·H·(N + 1)·8"),
        (("N/2",), "N/2"),
        (("256", "1"), ""),
        ((), ""),
    ],
)
def test_dimensions_as_a_product(given, text) -> None:
    assert product(given) == text
