"""The calls of products of groups whose memory is recorded, on devices with a kernel for them.

Other devices read the ends of groups, which these calls leave without values.
"""

from itertools import product

from operator_calls import call, x

HALF, ENDS = "bfloat16", "int32"
SIZES = (8, 128, 136, 1040)


def calls():
    for row in (*groups(), *shapes(), *layouts()):
        yield {**row, "on": ["H100", "B200"]}


def groups():
    for count in (1, 2, 3, 8, 17, 1023):
        rows, weights = x(4096, 64, dtype=HALF), x(count, 64, 48, dtype=HALF)
        yield call("_grouped_mm.default", rows, weights, x(count, dtype=ENDS))
    yield call("_grouped_mm.default", x(0, 64, dtype=HALF), x(8, 64, 48, dtype=HALF), ends(8))
    yield call("_grouped_mm.default", x(64, 64, dtype=HALF), x(2, 64, 48, dtype=HALF), offs=ends(2))


def shapes():
    for rows, columns, count in product(SIZES, SIZES, (1, 8)):
        each = x(count, rows, 64, dtype=HALF), x(count, 64, columns, dtype=HALF)
        yield call("_grouped_mm.default", *each)
        yield call("_grouped_mm.default", x(rows * count, 64, dtype=HALF), each[1], ends(count))
        # A size that is no multiple of the groups is divided without the rest.
        yield call("_grouped_mm.default", x(rows * count + 7, 64, dtype=HALF), each[1], ends(count))
        inner = x(rows, 128, dtype=HALF), x(128, columns, dtype=HALF)
        yield call("_grouped_mm.default", *inner, ends(count))
        yield call("_grouped_mm.default", each[0], x(64, columns * count, dtype=HALF), ends(count))


def layouts():
    """Yields the calls that the gradients of a layer of experts make."""
    rows, weights = x(512, 64, dtype=HALF), x(8, 64, 256, dtype=HALF)
    swapped = x(8, 64, 256, dtype=HALF, strides=(16384, 1, 64))
    for right in (weights, swapped):
        yield call("_grouped_mm.default", rows, right, ends(8), None, "torch.bfloat16")
    column = x(64, 512, dtype=HALF, strides=(1, 64))
    yield call("_grouped_mm.default", column, x(512, 256, dtype=HALF), ends(8))
    column = x(512, 64, dtype=HALF, strides=(1, 512))
    yield call("_grouped_mm.default", column, weights, ends(8))


def ends(count):
    return x(count, dtype=ENDS)
