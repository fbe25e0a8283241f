"""Calls drawn at random, which were not looked at while the rules were written."""

import random

from operator_calls import BINARY, UNARY, call, index, x

SEED = 20_260_113
COUNT = 1000
DTYPES = ("float32", "float32", "float16", "bfloat16", "float64")


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def size(self, most=3000):
        kind = self.random.random()
        if kind < 0.15:
            return self.random.choice((1, 2, 3))
        if kind < 0.5:
            return 2 ** self.random.randint(2, most.bit_length() - 1)
        return self.random.randint(1, most)

    def shape(self, low=1, high=4, most=4_000_000_000):
        rank = self.random.randint(low, high)
        while True:
            shape = [
                self.size(100_000 if self.random.random() < 0.1 else 3000) for _ in range(rank)
            ]
            total = 1
            for size in shape:
                total *= size
            if total <= most:
                return shape

    def strides(self, shape):
        """Returns contiguous, permuted, gapped or expanded strides."""
        kind = self.random.random()
        if kind < 0.55:
            return None
        order = list(range(len(shape)))
        if kind < 0.85:
            self.random.shuffle(order)
        gap = self.random.choice((1, 1, 1, 2, 3))
        strides, step = [0] * len(shape), gap
        for dim in reversed(order):
            strides[dim] = step
            step *= shape[dim]
        if kind > 0.95:
            strides[self.random.randrange(len(shape))] = 0
        return tuple(strides)

    def tensor(self, shape, dtype="float32"):
        return x(*shape, dtype=dtype, strides=self.strides(shape))

    def one(self):
        return self.random.choice(
            (
                product,
                product,
                reduction,
                reduction,
                softmax,
                norm,
                lookup,
                scan,
                pointwise,
                move,
                loss,
            )
        )(self)


def product(draw):
    dtype = draw.random.choice(DTYPES)
    m, k, n, b = draw.size(), draw.size(), draw.size(), draw.size(64)
    left, right = draw.tensor((m, k), dtype), draw.tensor((k, n), dtype)
    lefts, rights = draw.tensor((b, m, k), dtype), draw.tensor((b, k, n), dtype)
    return draw.random.choice(
        (
            call("mm.default", left, right),
            call("addmm.default", x(n, dtype=dtype), left, right),
            call("bmm.default", lefts, rights),
            call("baddbmm.default", x(b, m, n, dtype=dtype), lefts, rights),
            call("mv.default", left, draw.tensor((k,), dtype)),
        )
    )


def reduction(draw):
    dtype = draw.random.choice((*DTYPES, "int64", "bool"))
    shape = draw.shape()
    y = draw.tensor(shape, dtype)
    dims = sorted(draw.random.sample(range(len(shape)), draw.random.randint(1, len(shape))))
    keep = draw.random.random() < 0.5
    options = [
        call("sum.dim_IntList", y, dims, keep),
        call("amax.default", y, dims, keep),
        call("any.dim", y, dims[0], keep),
        call("max.dim", y, dims[0], keep),
        call("sum.default", y),
        call("sum.dim_IntList", y, dims, keep, dtype="torch.float32"),
    ]
    if dtype in DTYPES:
        options += [
            call("mean.dim", y, dims, keep),
            call("var.correction", y, dims, correction=1),
            call("argmax.default", y, dims[0], keep),
            call("argmax.default", y),
            call("linalg_vector_norm.default", y, 2, dims, keep),
            call("prod.dim_int", y, dims[0]),
            call("logsumexp.default", y, dims, keep),
            call("std_mean.correction", y, dims, correction=0),
        ]
    return draw.random.choice(options)


def softmax(draw):
    dtype = draw.random.choice(DTYPES)
    shape = draw.shape()
    dim = draw.random.randrange(len(shape))
    a, b = draw.tensor(shape, dtype), draw.tensor(shape, dtype)
    kind = draw.random.choice(("_softmax", "_log_softmax"))
    if draw.random.random() < 0.3:
        return call(f"{kind}.default", a, dim, False)
    return call(f"{kind}_backward_data.default", a, b, dim, f"torch.{dtype}")


def norm(draw):
    dtype = draw.random.choice(DTYPES)
    rows, columns = draw.size(200_000), draw.size()
    a, b = draw.tensor((rows, columns), dtype), draw.tensor((rows, columns), dtype)
    w = draw.tensor((columns,), dtype)
    s = x(rows, 1, dtype="float64" if dtype == "float64" else "float32")
    wanted = [draw.random.random() < 0.8 for _ in range(3)]
    return draw.random.choice(
        (
            call("native_layer_norm.default", a, [columns], w, w, 1e-5),
            call("native_layer_norm_backward.default", a, b, [columns], s, s, w, w, wanted),
            call("native_layer_norm_backward.default", a, b, [columns], s, s, w, w, [True] * 3),
            call("_fused_rms_norm_backward.default", a, b, [columns], s, w, wanted[:2]),
        )
    )


def lookup(draw):
    dtype = draw.random.choice(DTYPES)
    count, columns, weights = draw.size(200_000), draw.size(), draw.size(100_000)
    grad, places = draw.tensor((count, columns), dtype), index(count)
    table = x(weights, columns, dtype=dtype)
    return draw.random.choice(
        (
            call("embedding_dense_backward.default", grad, places, weights, -1, False),
            call("index_put_.default", table, [places], grad, True),
            call("index_put_.default", table, [places], grad, False),
            call("index.Tensor", table, [places]),
            call("embedding.default", table, places),
        )
    )


def scan(draw):
    shape = draw.shape(1, 3, 50_000_000)
    dim = draw.random.randrange(len(shape))
    if draw.random.random() < 0.3:
        return call(
            "sort.default", draw.tensor(shape, draw.random.choice(("float32", "int64"))), dim
        )
    y = draw.tensor(shape, draw.random.choice((*DTYPES, "int64", "bool")))
    return call("cumsum.default", y, dim)


def pointwise(draw):
    shape = draw.shape()
    if draw.random.random() < 0.5:
        return call(f"{draw.random.choice(UNARY)}.default", draw.tensor(shape))
    name = draw.random.choice(BINARY[:5])
    second = draw.tensor(shape, draw.random.choice(DTYPES))
    return call(f"{name}.Tensor", draw.tensor(shape), second)


def move(draw):
    shape = draw.shape()
    y = draw.tensor(shape, draw.random.choice(DTYPES))
    return draw.random.choice(
        (
            call("clone.default", y, memory_format="torch.contiguous_format"),
            call("_to_copy.default", y, dtype="torch.float16"),
            call("cat.default", [y, y], draw.random.randrange(len(shape))),
            call("masked_fill.Scalar", y, x(*shape, dtype="bool"), 0.0),
            call("where.self", x(*shape, dtype="bool"), y, draw.tensor(shape, "float32")),
            call("native_dropout.default", y, 0.3, True),
            call("roll.default", y, [1], [0]),
        )
    )


def loss(draw):
    dtype = draw.random.choice(DTYPES)
    rows, classes, kind = draw.size(), draw.size(60_000), draw.random.choice((0, 1, 2))
    y, t = draw.tensor((rows, classes), dtype), index(rows)
    many = [x(rows * 10, 7, dtype=dtype), x(rows, dtype=dtype)]
    return draw.random.choice(
        (
            call("nll_loss_forward.default", y, t, None, kind, -100),
            call("mse_loss.default", x(rows, 999, dtype=dtype), x(rows, 999, dtype=dtype), kind),
            call("_foreach_norm.Scalar", many),
        )
    )


def calls():
    draw = Draw(SEED)
    for _ in range(COUNT):
        yield draw.one()
