"""The calls of norms and losses with tensors that are not contiguous, whose memory is recorded."""

from itertools import product

from described import contiguous
from layer_calls import channels_last, gapped, layouts, plain, swapped
from operator_calls import call, x

DTYPES = (("float32", "float32"), ("float16", "float16"), ("bfloat16", "float32"))


def tokens(*shape, dtype="float32"):
    """The last two dimensions in the other order, as of features moved to the second place."""
    *rest, a, b = contiguous([*shape[:-2], shape[-1], shape[-2]])
    return x(*shape, dtype=dtype, strides=(*rest, b, a))


def expanded(*shape, dtype="float32"):
    """One element for all, as the gradient of a sum."""
    return x(*shape, dtype=dtype, strides=(0,) * len(shape))


SHAPES = (
    *((4, 64, 512), (64, 256, 100), (1, 16, 33), (16, 6)),
    *((8, 64, 56, 56), (2, 6, 4, 4, 4), (1, 1, 4, 4)),
)


def normalized(shape):
    """The layouts of an image or sequence that a norm is given."""
    third = (tokens,) if len(shape) > 2 else ()
    last = (channels_last,) if len(shape) in (4, 5) else ()
    return (swapped, gapped, *third, *last)


def batch_norms():
    for (dtype, of_weight), shape in product(DTYPES, SHAPES):
        w, s = x(shape[1], dtype=of_weight), x(shape[1], dtype=of_weight)
        for lay, training in product(normalized(shape), (True, False)):
            y = lay(*shape, dtype=dtype)
            given = (s, s, training, 0.1, 1e-5)
            yield call("native_batch_norm.default", y, w, w, *given)
            yield call("native_batch_norm.default", y, None, w, *given)
        yield call("_native_batch_norm_legit.no_stats", y, w, w, True, 0.1, 1e-5)


def batch_norm_gradients():
    for (dtype, of_weight), shape in product(DTYPES[:2], SHAPES):
        w, s = x(shape[1], dtype=of_weight), x(shape[1], dtype=of_weight)
        alone = ((expanded, plain), (tokens, plain), (plain, tokens), (expanded, tokens))
        both = [(lay, lay) for lay in normalized(shape)]
        mixed = [pair for pair in alone if len(shape) > 2 or tokens not in pair]
        if len(shape) in (4, 5):
            mixed += [(plain, channels_last), (channels_last, plain), (expanded, channels_last)]
        for (of_grad, lay), training in product([*both, *mixed], (True, False)):
            y, grad = lay(*shape, dtype=dtype), of_grad(*shape, dtype=dtype)
            for weight, wanted in (
                (w, [True] * 3),
                (w, [True, False, False]),
                (w, [False, True, True]),
                (None, [True, False, False]),
            ):
                given = (weight, s, s, x(shape[1]), x(shape[1]), training, 1e-5, wanted)
                yield call("native_batch_norm_backward.default", grad, y, *given)


def losses():
    names = ("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss")
    shapes = ((64, 999), (2, 6, 8, 8), (3, 300_000))
    for name, dtype, shape in product(names, ("float32", "bfloat16"), shapes):
        pairs = [(lay, lay) for lay in (*layouts(len(shape)), tokens)]
        pairs += [(tokens, plain), (plain, tokens), (plain, expanded), (gapped, plain)]
        for (first, second), kind in product(pairs, (0, 1)):
            y, target = first(*shape, dtype=dtype), second(*shape, dtype=dtype)
            yield call(f"{name}.default", y, target, kind)
    for name, kind in product(names[:3], (0, 1)):
        for y, target in (
            (x(4, 64, 8), x(64, 8)),
            (x(64, 1), x(1, 64)),
            (x(64, 8, dtype="bfloat16"), x(64, 8)),
            (tokens(4, 64, 8, dtype="bfloat16"), x(4, 64, 8)),
            (x(64, 8), x(64, 8, dtype="float64")),
        ):
            yield call(f"{name}.default", y, target, kind)


FAMILIES = (batch_norms, batch_norm_gradients, losses)


def calls():
    for family in FAMILIES:
        yield from family()
