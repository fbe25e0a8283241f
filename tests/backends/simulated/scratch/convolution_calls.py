"""The calls of convolutions whose memory is recorded."""

from functools import partial
from itertools import product

from layer_calls import channels_last, gapped, plain, swapped
from operator_calls import call, x

NO_TF32 = {"allow_tf32": False}


def calls():
    """Yields each convolution and its backward, once."""
    seen = []
    for row in (row for case in CASES for row in both(**case)):
        if row not in seen:
            seen.append(row)
            yield row


def both(*, x, w, bias=True, stride=1, padding=0, dilation=1, transposed=False, more=0, groups=1,
         dtype="float32", lay=plain, of_weight=plain, of_grad=None, backward=True,
         wanted=(True, True, True), **modes):  # fmt: skip
    """Yields the forward call and the backward call of a layer; ``more`` is its output padding."""
    rank = len(x) - 2
    lists = [[each] * rank if isinstance(each, int) else list(each)
             for each in (stride, padding, dilation, more)]  # fmt: skip
    stride, padding, dilation, more = lists
    options = (stride, padding, dilation, transposed, more, groups)
    sizes = output(x, w, *options)
    x, w = lay(*x, dtype=dtype), of_weight(*w, dtype=dtype)
    features = plain(sizes[1], dtype=dtype) if bias else None
    yield call("convolution.default", x, w, features, *options) | modes
    if backward:
        grad = (of_grad or lay)(*sizes, dtype=dtype)
        of_bias = [sizes[1]] if bias else None
        mask = [*wanted[:2], bias and wanted[2]]
        yield call("convolution_backward.default", grad, x, w, of_bias, *options, mask) | modes


def output(x, w, stride, padding, dilation, transposed, more, groups):
    """Returns the sizes of the result of a convolution."""
    edges = zip(x[2:], w[2:], stride, padding, dilation, more, strict=True)
    if transposed:
        made = [(n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, d, m in edges]
        return [x[0], w[1] * groups, *made]
    return [x[0], w[0], *((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in edges)]


def cases():
    image, kernel = (2, 16, 28, 28), (32, 16, 3, 3)
    halves = ("float16", "bfloat16")
    for dtype in ("float32", *halves):
        for lay in (plain, channels_last):
            yield {"x": image, "w": kernel, "padding": 1, "dtype": dtype, "lay": lay}
        yield {"x": (2, 16, 100), "w": (32, 16, 3), "padding": 1, "dtype": dtype}
        yield {"x": (1, 4, 8, 16, 16), "w": (8, 4, 3, 3, 3), "padding": 1, "dtype": dtype}
        yield {"x": (2, 3, 64, 64), "w": (64, 3, 16, 16), "stride": 16, "dtype": dtype}
        yield {"x": (2, 80, 200), "w": (64, 80, 3), "padding": 1, "stride": 2, "dtype": dtype}
        yield {"x": image, "w": (32, 4, 3, 3), "groups": 4, "dtype": dtype}
        yield {"x": (2, 16, 14, 14), "w": (16, 8, 4, 4), "stride": 2, "padding": 1,
               "transposed": True, "dtype": dtype}  # fmt: skip
        yield {"x": (2, 32, 28, 28), "w": (32, 1, 7, 7), "padding": 3, "groups": 32,
               "dtype": dtype}  # fmt: skip
        yield {"x": (2, 32, 28, 28), "w": (32, 1, 7, 7), "padding": 3, "groups": 32,
               "dtype": dtype, "lay": channels_last}  # fmt: skip
        yield {"x": (2, 32, 128), "w": (32, 1, 4), "padding": 3, "groups": 32, "dtype": dtype}
    yield from settings(image, kernel)
    yield from layouts(image, kernel)
    yield from kinds(image, kernel)
    yield from depthwise()
    yield from sums()


def settings(image, kernel):
    """Cases without TF32, and of deterministic algorithms."""
    for lay, mode in product((plain, channels_last), (NO_TF32, {"deterministic": True})):
        yield {"x": image, "w": kernel, "padding": 1, "lay": lay, **mode}  # fmt: skip
    yield {"x": (8, 64, 56, 56), "w": (128, 64, 3, 3), "padding": 1}
    yield {"x": (8, 64, 56, 56), "w": (128, 64, 3, 3), "padding": 1, **NO_TF32}
    yield {"x": (8, 64, 56, 56), "w": (128, 64, 3, 3), "padding": 1, "deterministic": True}
    yield {"x": (2, 4, 8, 8, 8), "w": (8, 4, 3, 3, 3), **NO_TF32}


def layouts(image, kernel):
    """Cases of copies: other layouts of the input, the weight and the gradient."""
    for lay, of_weight in product((plain, gapped, swapped, channels_last), (plain, channels_last)):
        yield {"x": image, "w": kernel, "lay": lay, "of_weight": of_weight}
    for lay, of_grad in (
        (plain, channels_last),
        (channels_last, plain),
        (plain, gapped),
        (gapped, plain),
        (swapped, swapped),
    ):
        yield {"x": image, "w": kernel, "lay": lay, "of_grad": of_grad, "dtype": "float16"}
        yield {"x": (2, 32, 14, 14), "w": (32, 1, 3, 3), "groups": 32, "lay": lay,
               "of_grad": of_grad}  # fmt: skip
        yield {"x": image, "w": (16, 8, 3, 3), "transposed": True, "stride": 2, "lay": lay,
               "of_grad": of_grad}  # fmt: skip
    for of_weight in (gapped, swapped):
        yield {"x": image, "w": kernel, "of_weight": of_weight}
        yield {"x": (2, 32, 14, 14), "w": (32, 1, 3, 3), "groups": 32, "of_weight": of_weight}
    for lay in (gapped, swapped):
        yield {"x": (2, 16, 100), "w": (32, 16, 3), "lay": lay}
        yield {"x": (2, 32, 100), "w": (32, 1, 3), "groups": 32, "lay": lay}
        yield {"x": (1, 4, 8, 8, 8), "w": (8, 4, 3, 3, 3), "lay": lay}
        yield {"x": (1, 8, 8, 8, 8), "w": (8, 1, 3, 3, 3), "groups": 8, "lay": lay}
    yield {"x": (1, 4, 8, 8, 8), "w": (8, 4, 3, 3, 3), "lay": channels_last}
    yield {"x": (1, 4, 8, 8, 8), "w": (8, 4, 3, 3, 3), "of_weight": channels_last}
    yield {"x": image, "w": (32, 16, 1, 1), "lay": channels_last}
    yield {"x": (2, 16, 1, 1), "w": (32, 16, 1, 1)}
    yield {"x": (2, 1, 28, 28), "w": (32, 1, 3, 3)}
    yield {"x": (2, 1, 28, 28), "w": (32, 1, 3, 3), "lay": channels_last}


def kinds(image, kernel):
    """Cases of other sizes and options of layers."""
    for wanted in ((True, False, False), (False, True, True), (False, False, True)):
        for lay in (plain, channels_last):
            yield {"x": image, "w": kernel, "wanted": wanted, "lay": lay}
        yield {"x": (2, 32, 14, 14), "w": (32, 1, 3, 3), "groups": 32, "wanted": wanted}
        yield {"x": image, "w": (16, 8, 3, 3), "transposed": True, "wanted": wanted}
    yield {"x": image, "w": kernel, "bias": False}
    yield {"x": image, "w": kernel, "dilation": 2}
    yield {"x": image, "w": kernel, "dilation": 2, "lay": channels_last, "dtype": "float16"}
    yield {"x": image, "w": kernel, "stride": (2, 1), "padding": (0, 1)}
    yield {"x": image, "w": (32, 16, 1, 1), "dtype": "bfloat16"}
    yield {"x": (2, 3, 17, 19), "w": (5, 3, 3, 3), "dtype": "float16"}
    yield {"x": (1, 4, 9, 9), "w": (8, 4, 3, 3), "dtype": "float64"}
    yield {"x": (1, 4, 9, 9), "w": (8, 4, 3, 3), "dtype": "float64", "lay": channels_last}
    yield {"x": (2, 16, 14), "w": (16, 8, 4), "stride": 2, "padding": 1, "transposed": True}
    yield {"x": (2, 16, 14, 14), "w": (16, 4, 3, 3), "stride": 2, "padding": 1, "more": 1,
           "groups": 2, "transposed": True}  # fmt: skip
    yield {"x": (1, 4, 6, 6, 6), "w": (4, 8, 3, 3, 3), "dilation": 2, "transposed": True}
    yield {"x": (2, 16, 14, 14), "w": (16, 8, 2, 2), "stride": 2, "transposed": True,
           "lay": channels_last, "dtype": "float16"}  # fmt: skip
    yield {"x": (1, 8, 8, 16, 16), "w": (8, 8, 3, 3, 3), "lay": channels_last,
           "dtype": "bfloat16"}  # fmt: skip
    yield {"x": (1, 8, 8, 16, 16), "w": (8, 4, 3, 3, 3), "groups": 2, "padding": 1}
    for dtype in ("float32", "float16"):
        yield {"x": (1, 8, 8, 16, 16), "w": (8, 1, 3, 3, 3), "groups": 8, "padding": 1,
               "dtype": dtype}  # fmt: skip
    for stride, dilation, kernel in product((1, 2), (1, 2), (3, 5)):
        yield {"x": (2, 64, 14, 14), "w": (64, 1, kernel, kernel), "groups": 64, "stride": stride,
               "dilation": dilation, "padding": 2, "dtype": "float16"}  # fmt: skip
    yield {"x": (2, 16, 14, 14), "w": (32, 1, 3, 3), "groups": 16}
    yield {"x": (1, 3, 224, 224), "w": (96, 3, 4, 4), "stride": 4}
    yield {"x": (1, 128, 56, 56), "w": (128, 128, 3, 3), "padding": 1, "dtype": "bfloat16",
           "lay": channels_last}  # fmt: skip


def depthwise():
    """Cases of one channel a group, where PyTorch chooses between two libraries, and copies."""
    for lay, of_weight, of_grad in (
        (plain, gapped, plain),
        (plain, plain, channels_last),
        (channels_last, plain, plain),
        (gapped, swapped, gapped),
    ):
        for dtype in ("float32", "float16"):
            yield {"x": (1, 8, 8, 8, 8), "w": (8, 1, 3, 3, 3), "groups": 8, "lay": lay,
                   "of_weight": of_weight, "of_grad": of_grad, "dtype": dtype}  # fmt: skip
    for wanted in ((True, False, False), (False, True, True), (False, False, True)):
        yield {"x": (1, 8, 8, 8, 8), "w": (8, 1, 3, 3, 3), "groups": 8, "wanted": wanted,
               "lay": swapped, "of_weight": gapped, "of_grad": gapped}  # fmt: skip
    for batch, channels, width, size, stride in (
        *((2, 16, 14, 3, 1), (1, 32, 14, 3, 2), (1, 32, 14, 1, 2), (2, 512, 14, 3, 2)),
        *((2, 256, 28, 5, 2), (2, 256, 14, 5, 2), (2, 128, 7, 1, 2), (2, 64, 6, 3, 1)),
        *((2, 64, 14, 1, 1), (2, 64, 14, 3, 3)),
    ):
        yield {"x": (batch, channels, width, width), "w": (channels, 1, size, size),
               "groups": channels, "stride": stride, "dtype": "float16"}  # fmt: skip
    for stride in (1, 2):
        for dtype in ("float16", "bfloat16"):
            yield {"x": (2, 64, 200), "w": (64, 1, 4), "groups": 64, "padding": 3,
                   "stride": stride, "dtype": dtype}  # fmt: skip


def sums():
    """Cases of large gradients of biases, of views with an offset, and of halves without TF32."""
    for dtype, lay in product(("float32", "float16"), (plain, channels_last, gapped)):
        yield {"x": (16, 3, 64, 64), "w": (8, 3, 3, 3), "dtype": dtype, "lay": lay}
        yield {"x": (4, 32, 64, 64), "w": (32, 1, 3, 3), "groups": 32, "dtype": dtype, "lay": lay}
    for dtype, size in product(("float32", "float16"), (1, 2, 8)):
        of = partial(moved, by=size)
        yield {"x": (2, 16, 28, 28), "w": (32, 16, 3, 3), "lay": of, "dtype": dtype}
        yield {"x": (2, 16, 28, 28), "w": (32, 16, 3, 3), "of_weight": of, "dtype": dtype}
    for dtype in ("float16", "bfloat16"):
        for lay in (plain, channels_last):
            yield {"x": (2, 16, 28, 28), "w": (32, 16, 3, 3), "dtype": dtype, "lay": lay,
                   **NO_TF32, "padding": 1}  # fmt: skip
    yield {"x": (16, 4, 8, 32, 32), "w": (8, 4, 3, 3, 3), "dtype": "bfloat16"}
    yield {"x": (4, 8, 2000), "w": (8, 8, 3), "lay": gapped}
    yield {"x": (2, 16, 100), "w": (32, 16, 3), "of_weight": features_last}
    yield {"x": (2, 16, 100), "w": (16, 4, 4), "groups": 4, "stride": 2, "transposed": True,
           "dtype": "float16"}  # fmt: skip


def moved(*shape, dtype, by):
    """Some elements behind the start of a storage."""
    return x(*shape, dtype=dtype, offset=by)


def features_last(*shape, dtype):
    _, b, c = shape
    return x(*shape, dtype=dtype, strides=(b * c, 1, b))


CASES = tuple(cases())
