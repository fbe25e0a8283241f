"""The calls of batch and group normalization whose memory is recorded."""

from itertools import product
from math import prod

from layer_calls import channels_last, gapped, plain
from operator_calls import call, x

DTYPES = (("float32", "float32"), ("bfloat16", "bfloat16"), ("bfloat16", "float32"))
IMAGES = ((2, 6, 8, 8), (2, 6, 8), (16, 6), (2, 6, 4, 4, 4), (64, 256, 56, 56), (9, 100, 7, 7))
ROWS = ((1000, 512), (300_000, 8), (8, 64, 1, 1), (100_000, 2000), (70_000, 3))


def batch_norms():
    for (dtype, of_weight), shape in product(DTYPES, (*IMAGES, *ROWS)):
        w, s = x(shape[1], dtype=of_weight), x(shape[1])
        layouts = (plain, *((channels_last,) if len(shape) == 4 else ()))
        for lay, training in product(layouts, (True, False)):
            y = lay(*shape, dtype=dtype)
            given = (s, s, training, 0.1, 1e-5)
            yield call("native_batch_norm.default", y, w, w, *given)
            yield call("native_batch_norm.default", y, None, None, *given)
            yield call("_native_batch_norm_legit.default", y, w, w, *given)
            yield call("_native_batch_norm_legit.no_stats", y, w, w, True, 0.1, 1e-5)
            for wanted in ([True] * 3, [True, False, False]):
                if not training and of_weight != "float32":
                    continue
                given = (w, s, s, s, s, training, 1e-5, wanted)
                yield call("native_batch_norm_backward.default", y, y, *given)


def group_norms():
    shapes = (
        *(((2, 6, 8, 8), 3), ((2, 6, 8), 2), ((1, 6, 4, 4, 4), 6), ((8, 512, 64, 64), 32)),
        *(((2, 320, 32, 32), 32), ((4, 64, 1, 1), 8), ((3, 64), 8), ((2, 6, 8, 8), 1)),
    )
    for dtype, (shape, groups) in product(("float32", "bfloat16", "float64"), shapes):
        batch, channels, elements = *shape[:2], prod(shape[2:])
        y, s = plain(*shape, dtype=dtype), x(batch, groups, dtype=dtype)
        sizes = (batch, channels, elements, groups)
        for w in (x(channels, dtype=dtype), None):
            yield call("native_group_norm.default", y, w, w, *sizes, 1e-5)
            if w is None:
                continue
            for wanted in (
                [True] * 3,
                [True, False, False],
                [False, True, True],
                [True, True, False],
            ):
                yield call("native_group_norm_backward.default", y, y, s, s, w, *sizes, wanted)


def other_layouts():
    """An image with gaps, and a volume in channels-last format."""
    y, w = gapped(2, 6, 8, 8), x(6)
    yield call("native_batch_norm.default", y, w, w, w, w, True, 0.1, 1e-5)
    y, w = channels_last(2, 6, 4, 4, 4), x(6)
    yield call("native_batch_norm.default", y, w, w, w, w, True, 0.1, 1e-5)


FAMILIES = (batch_norms, group_norms, other_layouts)


def calls():
    for family in FAMILIES:
        yield from family()
