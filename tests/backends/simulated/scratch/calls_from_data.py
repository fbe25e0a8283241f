"""The calls whose sizes depend on data; see ``described.filled_arguments`` for the data."""

import random

from operator_calls import call, x

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float16", "bfloat16", "float64")
COUNTS = (0, 1, 100, 4096, 4097, 20_000, 368_640, 368_641, 1_000_000)


def calls():
    for row in (*places(), *by_masks(), *comparisons(), *counts(), *held_out()):
        yield {"period": 3, **row}


def places():
    for count in COUNTS:
        yield call("nonzero.default", x(count, dtype="bool"))
    for dtype in DTYPES:
        yield call("nonzero.default", x(5000, dtype=dtype))
        yield call("nonzero.default", x(30, 40, dtype=dtype, strides=(1, 30)))
    yield call("nonzero.default", x(dtype="bool"))
    yield call("nonzero.default", x(7, 8, 9, dtype="int64"))
    yield {**call("nonzero.default", x(1000)), "period": 2000}


def by_masks():
    y = x(1000, 64)
    for mask in (x(1000, dtype="bool"), x(1000, 64, dtype="bool"), x(1000, dtype="uint8")):
        yield call("index.Tensor", y, [mask])
    wide = x(1000, dtype="bool", strides=(2,))
    for target, indices in (
        (y, [None, x(64, dtype="bool")]),
        (y, [wide]),
        (x(10, 100, 64, dtype="float16"), [x(10, 100, dtype="bool")]),
        (x(10, 100, 64), [None, x(100, dtype="bool")]),
        (x(64, 1000, strides=(1, 64)), [x(64, dtype="bool")]),
        (x(0, 64), [x(0, dtype="bool")]),
    ):
        yield call("index.Tensor", target, indices)
    yield {**call("index.Tensor", y, [x(1000, 64, dtype="bool")]), "period": 1}
    for mask in (x(1000, 64, dtype="bool"), x(64, dtype="bool"), x(1000, 1, dtype="bool")):
        yield call("masked_select.default", y, mask)
    yield call("masked_select.default", x(64), x(1000, 64, dtype="bool"))
    yield call("masked_select.default", x(), x(dtype="bool"))
    yield call("masked_select.default", y, x(1000, 64, dtype="bool", strides=(1, 1000)))
    for op in ("index_put_", "index_put", "_index_put_impl_"):
        for added in (False, True):
            yield call(f"{op}.default", y, [x(1000, dtype="bool")], x(334, 64), added)
    for index in (x(1000, dtype="bool"), x(334, dtype="int64")):  # as autograd calls it
        yield call("_index_put_impl_.default", y, [index], x(334, 64), True, True)
    for target, indices, values in (
        (y, [x(1000, 64, dtype="bool")], x(21334)),
        (y, [None, x(64, dtype="bool")], x(1000, 22)),
        (x(64, 1000, strides=(1, 64)), [x(64, dtype="bool")], x(22, 1000)),
        (x(100, 64), [wide.replace("1000", "100")], x(34, 1)),
    ):
        yield call("index_put_.default", target, indices, values, False)
        yield call("index_put_.default", target, indices, values, True)
        yield call("index_put_.default", target, indices, values, False, deterministic=True)


def comparisons():
    for dtype in DTYPES:
        for shape in ((1,), (100, 7), (300_000,), (1000, 3000)):
            y = x(*shape, dtype=dtype)
            yield call("equal.default", y, y)
            if dtype.startswith(("f", "b")) and dtype != "bool":
                yield call("allclose.default", y, y)
    y = x(1000, 64)
    yield call("equal.default", y, x(1, 64))
    yield call("equal.default", x(0, 64), x(0, 64))
    for a in (y, x(1000, 64, strides=(1, 1000)), x(1000, 64, strides=(128, 2))):
        for b in (y, x(1000, 64, strides=(1, 1000))):
            yield call("equal.default", a, b)
    for limits in ((0.0, 0.0), (0.0, 1e-3), (1e-3, 0.0)):
        yield call("allclose.default", y, y, *limits)
    yield call("allclose.default", x(0, 64), x(0, 64))
    yield call("_local_scalar_dense.default", x(1))


def counts():
    for count in (0, 1, 100, 5000, 1_000_000):
        for dtype in ("int64", "int32"):
            y = x(count, dtype=dtype)
            yield call("repeat_interleave.Tensor", y)
            yield call("bincount.default", y)
            yield call("bincount.default", y, None, 10_000)
            for weight in ("float32", "float64", "int64", "float16"):
                yield call("bincount.default", y, x(count, dtype=weight))
    yield call("repeat_interleave.Tensor", x(999, dtype="int64"), output_size=999)


def held_out():
    """Yields calls drawn at random after the rules were finished."""
    draw = random.Random(19)
    for _ in range(40):
        a, b = draw.randint(1, 3000), draw.randint(1, 900)
        dtype, period = draw.choice(DTYPES), draw.randint(1, 50)
        y, mask = x(a, b, dtype=dtype), x(a, b, dtype="bool")
        yield {**call("nonzero.default", y), "period": period}
        yield {**call("index.Tensor", y, [mask]), "period": period}
        yield {**call("index.Tensor", y, [x(a, dtype="bool")]), "period": period}
        yield {**call("masked_select.default", y, x(b, dtype="bool")), "period": period}
        yield {**call("equal.default", y, x(a, b, dtype=dtype, strides=(1, a))), "period": period}
        yield {**call("repeat_interleave.Tensor", x(a * b, dtype="int64")), "period": period}
        yield {**call("bincount.default", x(a * b, dtype="int32")), "period": period}
        if dtype.startswith("f"):
            yield {**call("allclose.default", y, y), "period": period}
