"""The calls whose memory is recorded, family by family."""

from itertools import product


def x(*shape, dtype="float32", strides=None, offset=0):
    text = f"{dtype}{list(shape)}"
    if strides is not None or offset:
        from described import contiguous

        strides = contiguous(shape) if strides is None else strides
        text += f"({', '.join(map(str, strides))})"
    return text + f"@{offset}" * bool(offset)


def call(op, *args, **kwargs):
    modes = {mode: True for mode in ("deterministic", "cold") if kwargs.pop(mode, False)}
    row = {"op": f"aten.{op}", "args": list(args), **modes}
    return {**row, "kwargs": kwargs} if kwargs else row


FLOATS = ("float32", "float16", "bfloat16", "float64")


def softmaxes():
    for dtype in FLOATS:
        for shape, dim in (((2, 4, 33, 65), -1), ((8, 2048), 1), ((5, 7, 9), 0)):
            y = x(*shape, dtype=dtype)
            for kind in ("_softmax", "_log_softmax"):
                yield call(f"{kind}.default", y, dim, False)
                yield call(f"{kind}_backward_data.default", y, y, dim, f"torch.{dtype}")
    y = x(4, 128, 128)
    for kind in ("_softmax", "_log_softmax"):
        yield call(f"{kind}_backward_data.default", y, y, -1, "torch.float16")
        yield call(f"{kind}_backward_data.default", y, y, -1, "torch.bfloat16")
        layouts = [(1, 4, 512), (16384, 1, 128), (16384, 128, 1), (0, 0, 0), (0, 128, 1)]
        for a, b in product(layouts, layouts):
            grad, out = x(4, 128, 128, strides=a), x(4, 128, 128, strides=b)
            yield call(f"{kind}_backward_data.default", grad, out, -1, "torch.float32")
        yield call(f"{kind}.default", x(4, 128, 128, strides=(1, 4, 512)), -1, False)
        yield call(f"{kind}.default", x(40_000, 40_000, dtype="float16"), -1, False)


def norms():
    for dtype, (rows, columns) in product(
        ("float32", "float16"),
        (
            (16, 64),
            (1000, 768),
            (65_536, 64),
            (70_000, 64),
            (70_001, 100),
            (131_072, 512),
            (131_072, 1720),
            (131_072, 1728),
            (131_072, 2112),
        ),
    ):
        y, w, s = x(rows, columns, dtype=dtype), x(columns, dtype=dtype), x(rows, 1)
        yield call("native_layer_norm.default", y, [columns], w, w, 1e-5)
        yield call("_fused_rms_norm.default", y, [columns], w, 1e-5)
        for wanted in ([True, True, True], [True, True, False], [False, True, True]):
            yield call("native_layer_norm_backward.default", y, y, [columns], s, s, w, w, wanted)
        for wanted in ([True, True], [False, True], [True, False]):
            yield call("_fused_rms_norm_backward.default", y, y, [columns], s, w, wanted)
    y, s = x(8, 16, 64), x(8, 16, 1)
    yield call("native_layer_norm.default", y, [64], None, None, 1e-5)
    yield call(
        "native_layer_norm_backward.default", y, y, [64], s, s, None, None, [True, False, False]
    )
    yield call("_fused_rms_norm_backward.default", y, y, [64], s, None, [True, False])
    for strides in ((1, 8, 128), (64, 512, 1), (0, 0, 0), (2048, 128, 2)):
        z, w = x(8, 16, 64, strides=strides), x(64, strides=(2,))
        yield call("native_layer_norm.default", z, [64], w, w, 1e-5)
        yield call("_fused_rms_norm.default", z, [64], w, 1e-5)
        for a, b in ((z, y), (y, z), (z, z)):
            yield call("native_layer_norm_backward.default", a, b, [64], s, s, w, w, [True] * 3)
            yield call("_fused_rms_norm_backward.default", a, b, [64], s, w, [True] * 2)
    many, w, s = x(70_000, 64, strides=(0, 0)), x(64), x(70_000, 1)
    y = x(70_000, 64)
    yield call("native_layer_norm_backward.default", many, y, [64], s, s, w, w, [True] * 3)
    yield call("_fused_rms_norm_backward.default", many, y, [64], s, w, [True] * 2)


def products():
    for dtype in FLOATS:
        for m, k, n in ((64, 64, 64), (1, 17, 33), (1000, 3, 1), (512, 768, 3072)):
            a, b = x(m, k, dtype=dtype), x(k, n, dtype=dtype)
            yield call("mm.default", a, b)
            yield call("addmm.default", x(n, dtype=dtype), a, b)
            yield call("addmm.default", x(m, n, dtype=dtype), a, b, beta=0.5)
            yield call("bmm.default", x(6, m, k, dtype=dtype), x(6, k, n, dtype=dtype))
            yield call("mv.default", a, x(k, dtype=dtype))
    layouts = [(16, 1), (1, 16), (32, 2), (0, 1), (1, 0), (0, 0), (17, 1), (1, 17), (3, 1), (1, 3)]
    for a, b in product(layouts, layouts):
        left, right = x(16, 16, strides=a), x(16, 16, strides=b)
        yield call("mm.default", left, right)
        yield call("addmm.default", x(16), left, right)
        yield call("bmm.default", x(3, 16, 16, strides=(512, *a)), x(3, 16, 16, strides=(0, *b)))
        yield call("baddbmm.default", x(1, 16, 16), x(3, 16, 16, strides=(1, *a)), x(3, 16, 16))
    for a, v in product(layouts, ((1,), (0,), (3,))):
        yield call("mv.default", x(16, 16, strides=a), x(16, strides=v))
        yield call("addmv.default", x(16), x(16, 16, strides=a), x(16, strides=v))
    for shape in ((0, 16), (16, 0)):
        yield call("mm.default", x(*shape), x(*shape[::-1]))
        yield call("addmm.default", x(shape[0]), x(*shape), x(*shape[::-1]))
        yield call("bmm.default", x(2, *shape), x(2, *shape[::-1]))
    for result in ((16, 1), (1, 16), (32, 2), (17, 1), (1, 17)):
        out, y = x(16, 16, strides=result), x(16, 16)
        yield call("mm.out", y, x(16, 16, strides=(32, 2)), out=out)
        yield call("addmm_.default", out, y, x(16, 16, strides=(32, 2)))
        batch = x(3, 16, 16, strides=(600, *result))
        yield call("bmm.out", x(3, 16, 16), x(3, 16, 16), out=batch)
        yield call("baddbmm_.default", batch, x(3, 16, 16), x(3, 16, 16))
    for row, column in ((1, 8), (8, 1), (1, 1)):
        for strides in ((1, 1), (8, 1), (1, 8), (2, 2), (16, 16)):
            y = x(row, column, strides=strides)
            yield call("mm.default", y, x(column, 4))
            yield call("mm.default", x(4, row), y)
            yield call("bmm.default", x(2, row, column, strides=(64, *strides)), x(2, column, 4))
            yield call("bmm.default", x(2, 4, row), x(2, row, column, strides=(64, *strides)))
    half = "float16"
    yield call("mm.dtype", x(64, 64, dtype=half), x(64, 64, dtype=half), "torch.float32")
    yield call("bmm.dtype", x(2, 64, 64, dtype=half), x(2, 64, 64, dtype=half), "torch.float32")
    yield call("_addmm_activation.default", x(64), x(16, 32), x(32, 64), use_gelu=True)
    yield call("dot.default", x(100), x(100))
    for op in ("mm", "bmm"):
        shape = (2, 64, 64)[3 - len(op) :] if op == "bmm" else (64, 64)
        for dtype in FLOATS:
            y = x(*shape, dtype=dtype)
            yield call(f"{op}.default", y, y, cold=True)
            yield call(
                "addmm.default", x(64, dtype=dtype), *[x(64, 64, dtype=dtype)] * 2, cold=True
            )
    yield call("mm.default", x(64, 64, strides=(128, 2)), x(64, 64, strides=(128, 2)), cold=True)
    yield call("addmm.default", x(64), x(64, 64, strides=(128, 2)), x(64, 64), cold=True)
    yield call("mv.default", x(64, 64, strides=(128, 2)), x(64), cold=True)
    yield call("dot.default", x(100), x(100), cold=True)
    yield call("mm.default", x(0, 64), x(64, 64), cold=True)
    yield call("mm.default", x(64, 0), x(0, 64), cold=True)
    yield call("bmm.default", x(2, 64, 0), x(2, 0, 64), cold=True)


def reductions():
    shapes = [
        ((1_000_000,), None),
        ((2048, 256), 0),
        ((2048, 256), 1),
        ((8192, 768), 0),
        ((8, 1024, 768), (0, 1)),
        ((8, 1024, 768), 1),
        ((8, 1024, 768), (0, 2)),
        ((100_003, 7), 0),
        ((100_003, 7), 1),
        ((3, 1_000_003), 1),
        ((16, 50_257), 1),
        ((50_257, 16), 0),
        ((128, 128, 128), None),
        ((1, 5_000_000), 1),
        ((5_000_000, 1), 0),
        ((2, 12, 1024, 1024), -1),
        ((2, 12, 1024, 1024), (0, 2)),
    ]
    for (shape, dim), dtype in product(shapes, ("float32", "float16", "float64")):
        y = x(*shape, dtype=dtype)
        dims = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
        yield call("sum.dim_IntList", y, dims)
        yield call("mean.dim", y, dims, True)
        yield call("amax.default", y, dims or [])
        yield call("var.correction", y, dims, correction=1)
        yield call("linalg_vector_norm.default", y, 2, dims)
        if isinstance(dim, int):
            yield call("max.dim", y, dim)
            yield call("argmax.default", y, dim)
            yield call("any.dim", y, dim)
    for dtype in ("int64", "int32", "bool", "bfloat16"):
        y = x(4096, 300, dtype=dtype)
        yield call("sum.default", y)
        yield call("sum.dim_IntList", y, [0])
        yield call("sum.dim_IntList", y, [0], dtype="torch.float32")
        yield call("any.default", y)
        yield call("max.default", y)
        yield call("argmax.default", y)
    for strides in ((1, 4096), (600, 2), (0, 1), (1, 0), (301, 1)):
        for dtype in ("float32", "float16"):
            y = x(4096, 300, dtype=dtype, strides=strides)
            for dims in ([0], [1], [0, 1]):
                yield call("sum.dim_IntList", y, dims)
                yield call("sum.dim_IntList", y, dims, True, dtype="torch.float32")
            yield call("sum.default", y)
            yield call("argmax.default", y)
            yield call("var_mean.correction", y, [0], correction=0)
    for offset in (1, 2, 3, 4, 8):
        yield call("sum.dim_IntList", x(8192, 64, offset=offset), [0])
    half = "float16"
    for op in ("sum", "mean"):
        yield call(f"{op}.default", x(3_000_000_000, dtype=half))
        yield call(f"{op}.dim" + "_IntList" * (op == "sum"), x(65_537, 65_536, dtype=half), [0])
        yield call(f"{op}.dim" + "_IntList" * (op == "sum"), x(65_537, 65_536, dtype=half), [1])
    yield call("sum.default", x(3_000_000_000))
    yield call("sum.dim_IntList", x(65_536, 65_537), [1])
    yield call("amax.default", x(131_072, 131_072, dtype=half), [1])
    yield call("max.dim", x(131_072, 131_072, dtype=half), 1)
    yield call("var.correction", x(65_537, 65_536, dtype=half), [1], correction=1)
    for shape in ((8, 50_257), (8, 500_000), (16, 12)):
        for dtype in ("float32", "float16"):
            yield call("logsumexp.default", x(*shape, dtype=dtype), [1])
            yield call("logsumexp.default", x(*shape, dtype=dtype), [-1], True)
    yield call("sum.default", x())
    yield call("sum.dim_IntList", x(0, 8), [0])
    for op in ("min", "prod", "nansum", "all", "aminmax", "std"):
        yield call(f"{op}.default", x(1_000_000))
    yield call("min.dim", x(1000, 3000), 0)
    yield call("std_mean.correction", x(30, 100_000), [1])
    yield call("norm.Scalar", x(1_000_000), 2)


def reductions_into():
    """Yields reductions into a tensor: contiguous, transposed, or a column of a wider one."""
    layouts = (
        # input, dims, keepdim, shape and strides of the result
        ((4096, 300), [0], False, (300,), ((1,), (7,))),
        ((4096, 300), [1], False, (4096,), ((1,), (65,))),
        ((4096, 300), [0], True, (1, 300), ((300, 1), (1, 9))),
        ((8, 1024, 768), [1], False, (8, 768), ((768, 1), (1, 8), (1000, 1))),
        ((8, 1024, 768), [1], True, (8, 1, 768), ((768, 768, 1), (1, 8, 8))),
        ((16, 50_257), [0, 1], False, (), ((),)),
        ((3, 1_000_003), [1], False, (3,), ((1,), (5,))),
        ((100_003, 7), [0], False, (7,), ((1,), (3,))),
        ((64, 1, 5000), [1, 2], True, (64, 1, 1), ((1, 1, 1), (33, 33, 33))),
        ((32, 1, 64), [-1], False, (32, 1), ((1, 1), (65, 65))),
        ((4, 32, 64, 64), [-1], False, (4, 32, 64), ((2048, 64, 1), (133_120, 4160, 65))),
    )
    types = ("float32", "float16", "int32")
    for (shape, dims, keep, sizes, given), dtype in product(layouts, types):
        y = x(*shape, dtype=dtype)
        for strides in given:
            out = x(*sizes, dtype=dtype, strides=strides)
            wide = x(*sizes, dtype="float64", strides=strides)
            yield call("sum.IntList_out", y, dims, keep, out=out)
            yield call("sum.IntList_out", y, dims, keep, dtype="torch.float64", out=wide)
            yield call("amax.out", y, dims, keep, out=out)
    y, out = x(4096, 300, dtype="bfloat16"), x(300, dtype="bfloat16", strides=(301,))
    for op in ("sum.IntList_out", "mean.out", "amin.out"):
        yield call(op, y, [0], out=out)
    yield call("prod.int_out", y, 0, out=out)
    yield call("mean.out", y, [0], dtype="torch.float32", out=x(300, strides=(301,)))
    yield call("sum.IntList_out", x(0, 8), [0], out=x(8))


INDEX = "int64"
HALF = "float16"


def index(*shape, **more):
    return x(*shape, dtype=INDEX, **more)


def lookups():
    for rows, columns, weights, dtype in product(
        (16, 3072, 3073, 4096, 4097, 8192, 102_400), (64, 768), (50, 431, 50_257), ("float32", HALF)
    ):
        grad = x(rows, columns, dtype=dtype)
        yield call("embedding_dense_backward.default", grad, index(rows), weights, -1, False)
    yield call("embedding.default", x(50, 64), index(8, 16))
    yield call("embedding.default", x(50, 64), index(8, 16, strides=(1, 8)))
    grad = x(10_000, 64, strides=(0, 0))
    yield call("embedding_dense_backward.default", grad, index(10_000, strides=(2,)), 99, -1, False)
    y = x(8, 16, 128)
    one, column, row = index(5), index(5, 1), index(4)
    narrow = x(5, 1, dtype="int32")
    for indices in (
        [one],
        [None, one],
        [None, None, one],
        [column, row],
        [column, None, row],
        [one, one, one],
        [None, column, row],
        [narrow, row],
        [narrow, narrow],
        [x(5, dtype="int32")],
        [index()],
        [index(1), one],
        [index(5, strides=(2,))],
        [index(5, strides=(2,)), one],
    ):
        yield call("index.Tensor", y, indices)
        yield call("index.Tensor", x(8, 16, 128, strides=(1, 8, 128)), indices)
        for accumulate in (False, True):
            yield call("index_put_.default", y, indices, x(), accumulate)
    for target, place, value in (
        (y, [one], x(5, 16, 128)),
        (y, [one], x(5, 16, 128, strides=(0, 0, 0))),
        (y, [None, one], x(8, 5, 128)),
        (y, [one, None, one], x(5, 16)),
        (y, [column, None, row], x(5, 4, 16)),
        (x(8, 16, 128, strides=(1, 8, 128)), [one], x(5, 16, 128)),
        (x(50_257, 64), [index(8, 1024)], x(8, 1024, 64)),
        (x(1000, 64), [index(2304)], x(2304, 64)),
        (x(1000, 64), [index(2305)], x(2305, 64)),
        (x(1_000_000, 8), [index(300_000)], x(300_000, 8)),
        (x(50_000, dtype=HALF), [index(1_000_000)], x(1_000_000, dtype=HALF)),
    ):
        for op in ("index_put_", "index_put", "_unsafe_index_put"):
            yield call(f"{op}.default", target, place, value, True)
        yield call("index_put_.default", target, place, value, False)
        yield call("index_put_.default", target, place, value, False, deterministic=True)
    for op in ("gather.default", "index_select.default"):
        yield call(op, x(8, 128), 1, index(8, 12) if op[0] == "g" else index(12))
    yield call("scatter.src", x(8, 128), 1, index(8, 12), x(8, 12))
    yield call("scatter.value", x(8, 128), 1, index(8, 12), 1.0)
    yield call("scatter_add.default", x(8, 128), 1, index(8, 12), x(8, 12))
    yield call("index_add.default", x(8, 128), 0, index(5), x(5, 128))
    yield call("index_copy.default", x(8, 128), 0, index(5), x(5, 128))
    yield call("index_fill.int_Scalar", x(8, 128), 0, index(5), 1)
    yield call("take.default", x(8, 128), index(5))


def scans_and_sorts():
    for dtype in (*FLOATS, "int64", "int32", "bool"):
        for shape, dim in (
            ((8, 1024), 1),
            ((8, 1024), 0),
            ((1500,), 0),
            ((5_000_000,), 0),
            ((1, 2000), 1),
        ):
            yield call("cumsum.default", x(*shape, dtype=dtype), dim)
        yield call("cumsum.default", x(8, 1024, dtype=dtype, strides=(1, 8)), 1)
    for op in ("cumprod", "logcumsumexp", "cummax", "cummin"):
        yield call(f"{op}.default", x(102_400), 0)
        yield call(f"{op}.default", x(8, 1024, strides=(1, 8)), 0)
    yield call("cumsum.default", x(8, 1024, dtype=HALF), -1, dtype="torch.float32")
    yield call("cumsum.default", x(2000, strides=(2,)), 0)
    yield call("cumsum.default", x(1_500_000_000, dtype=HALF), 0)
    yield call("cumsum_.default", x(10_000), 0)
    yield call("cumsum.default", x(), 0)
    for shape in (
        (8, 10),
        (8, 4096),
        (8, 4097),
        (1, 4096),
        (8192,),
        (100_000,),
        (127, 5000),
        (3, 500_000),
        (1000, 64),
    ):
        for dtype in ("float32", "int64"):
            yield call("sort.default", x(*shape, dtype=dtype))
            yield call("sort.stable", x(*shape, dtype=dtype), stable=True, descending=True)
    yield call("sort.default", x(1000, 64), 0)
    for shape, k, dim in (
        *(((8, 1024), 5, -1), ((8, 1024), 20, 1), ((5000, 8), 5, 0), ((8, 19_999), 5, -1)),
        *(((1, 2048), 5, -1), ((30, 9999), 5, -1), ((70, 7999), 2, -1), ((150, 4999), 2, -1)),
        *(((500, 2999), 2, -1), ((2000, 799), 2, -1), ((5000, 399), 2, -1), ((8, 2048), 2048, -1)),
    ):
        yield call("topk.default", x(*shape), k, dim)
    yield call("topk.default", x(8, 1024, strides=(1, 8)), 5)
    yield call("topk.default", x(2, 8, 512, dtype=HALF, strides=(512, 1024, 1)), 5, 1)
    yield call("sort.default", x(64, 1000, strides=(1, 64)), -1)


def losses():
    for dtype in ("float32", HALF):
        y, t = x(1024, 50_257, dtype=dtype), index(1024)
        for kind in (0, 1, 2):
            yield call("nll_loss_forward.default", y, t, None, kind, -100)
            grad = x(1024, dtype=dtype) if kind == 0 else x(dtype=dtype)
            total = x(dtype=dtype)
            yield call("nll_loss_backward.default", grad, y, t, None, kind, -100, total)
        for op in ("mse_loss", "smooth_l1_loss", "huber_loss"):
            for kind in (0, 1, 2):
                yield call(
                    f"{op}.default", x(1000, 999, dtype=dtype), x(1000, 999, dtype=dtype), kind
                )
        for kind in (0, 1, 2):
            z = x(1000, 999, dtype=dtype)
            yield call("binary_cross_entropy_with_logits.default", z, z, None, None, kind)
        yield call("mse_loss_backward.default", x(dtype=dtype), *[x(99, 9, dtype=dtype)] * 2, 1)
        for p, train in ((0.1, True), (1.0, True)):
            yield call("native_dropout.default", x(64, 64, dtype=dtype), p, train)
        yield call("native_dropout.default", x(64, 64, dtype=dtype, strides=(1, 64)), 0.1, True)
        yield call("native_dropout_backward.default", x(64, 64), x(64, 64, dtype="bool"), 1.1)
    y, t, w = x(100, 50, strides=(1, 100)), index(100, strides=(2,)), x(50, strides=(2,))
    for kind in (0, 1):
        yield call("nll_loss_forward.default", y, t, w, kind, -100)
        grad = x(100, strides=(2,)) if kind == 0 else x()
        yield call("nll_loss_backward.default", grad, y, t, w, kind, -100, x())


def optimizers():
    for dtype in ("float32", HALF, "bfloat16"):
        a = [x(1000, dtype=dtype), x(300, 700, dtype=dtype), x(5, dtype=dtype)]
        for op in ("sqrt", "neg", "reciprocal", "exp", "abs"):
            yield call(f"_foreach_{op}.default", a)
            yield call(f"_foreach_{op}_.default", a)
        for op in ("add", "mul", "sub", "div", "maximum"):
            yield call(f"_foreach_{op}.List", a, a)
            yield call(f"_foreach_{op}_.Scalar", a, 2.0)
        yield call("_foreach_lerp_.Scalar", a, a, 0.1)
        yield call("_foreach_addcmul_.Scalar", a, a, a, 0.1)
        yield call("_foreach_addcdiv_.ScalarList", a, a, a, [0.1, 0.2, 0.3])
        yield call("_foreach_mul_.Tensor", a, x())
        yield call("_foreach_pow.ScalarAndTensor", 2.0, a)
        yield call("_foreach_zero_.default", a)
        yield call("_foreach_copy_.default", a, a)
        for order in (1, 2, float("inf")):
            yield call("_foreach_norm.Scalar", a, order)
        big = [x(50_257, 768, dtype=dtype), x(65_536, dtype=dtype), x(65_537, dtype=dtype)]
        yield call("_foreach_norm.Scalar", big)
        yield call("_amp_foreach_non_finite_check_and_unscale_.default", a, x(), x())
        rates = {"lr": 1e-3, "weight_decay": 0.1, "maximize": False}
        betas = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "amsgrad": False}
        steps = [x(), x(), x()]
        for op in ("_fused_adam_", "_fused_adamw_"):
            yield call(f"{op}.default", a, a, a, a, [], steps, **rates, **betas)
        yield call(
            "_fused_sgd_.default",
            a,
            a,
            [],
            **rates,
            momentum=0.0,
            dampening=0.0,
            nesterov=False,
            is_first_step=False,
        )
    yield call("_amp_update_scale_.default", x(), x(dtype="int32"), x(), 2.0, 0.5, 2000)


def moves():
    device = {"device": "cuda"}
    y, t = x(8, 128), x(8, 128, strides=(1, 8))
    for z in (y, t, x(8, 128, strides=(256, 2)), x(8, 128, dtype=HALF)):
        yield call("clone.default", z)
        yield call("clone.default", z, memory_format="torch.contiguous_format")
        for dtype in ("float16", "float32", "int64"):
            yield call("_to_copy.default", z, dtype=f"torch.{dtype}")
        yield call("copy_.default", y, z)
        yield call("cat.default", [z, y], 0)
        yield call("cat.default", [y, z, y], 1)
        yield call("stack.default", [z, z], 1)
        for op in ("tril", "triu"):
            yield call(f"{op}.default", z)
        yield call("repeat.default", z, [2, 1])
        yield call("flip.default", z, [1])
        yield call("roll.default", z, [3], [1])
        yield call("constant_pad_nd.default", z, [1, 1])
        yield call("add.Tensor", z, t)
        yield call("add_.Tensor", y, z)
        yield call("mul.Tensor", z, x(128, dtype="float64"))
        yield call("where.self", x(8, 128, dtype="bool"), z, y)
        yield call("where.self", x(128, dtype="bool"), z, x(dtype="float64"))
        yield call("masked_fill.Scalar", z, x(128, dtype="bool"), -1e9)
        yield call("masked_fill_.Scalar", z, x(128, dtype="bool"), -1e9)
        yield call("masked_fill.Tensor", z, x(8, 128, dtype="bool"), x(dtype=z.split("[")[0]))
        for op in ("gelu", "silu", "relu", "exp", "tanh", "neg", "rsqrt", "log_sigmoid_forward"):
            yield call(f"{op}.default", z)
        for op in ("gelu_backward", "silu_backward", "tanh_backward"):
            yield call(f"{op}.default", z, z)
        yield call("threshold_backward.default", z, z, 0)
        yield call("pow.Tensor_Scalar", z, 2)
        yield call("expand.default", z, [3, 8, 128])
        yield call("transpose.int", z, 0, 1)
        yield call("lerp.Scalar", z, z, 0.5)
        yield call("addcmul.default", z, z, z)
        yield call("addcdiv_.default", z, z, z)
        yield call("_safe_softmax.default", z, -1)
    yield call("_safe_softmax.default", x(8, 500_000), -1)
    for dtype in ("float16", "bfloat16"):
        yield call("_safe_softmax.default", x(2, 4, 64, 64, dtype=dtype), -1, "torch.float32")
    yield call(
        "add.Tensor",
        x(65_536, 40_000, dtype=HALF),
        x(65_536, 40_000, dtype=HALF, strides=(1, 65_536)),
    )
    yield call("cat.default", [x(8, 128)] * 500, 0)
    yield call("slice_backward.default", x(8, 12), [8, 128], 1, 3, 15, 1)
    yield call("select_backward.default", x(8), [8, 128], 1, 3)
    for op in ("zeros", "ones", "rand", "randn", "empty"):
        yield call(f"{op}.{'memory_format' if op == 'empty' else 'default'}", [64, 3], **device)
    yield call("full.default", [64], 1.0, **device)
    yield call("arange.default", 100, **device)
    yield call("arange.start_step", 0, 100, 2, **device)
    for op in ("zeros_like", "ones_like", "rand_like", "randn_like", "empty_like"):
        yield call(f"{op}.default", t)
    yield call("bernoulli.p", y, 0.5)
    yield call("bernoulli_.float", y, 0.5)
    yield call("normal_.default", y)
    yield call("uniform_.default", y)
    yield call("fill_.Scalar", y, 0.0)
    yield call("zero_.default", y)
    yield call("searchsorted.Tensor", x(1000), x(10))
    yield call("glu.default", y)
    yield call("tril_.default", y)
    yield call("logical_not.default", x(8, 128, dtype="bool"))
    yield call("_unsafe_view.default", y, [1024])
    yield call("detach.default", y)


UNARY = (
    *("abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "ceil", "celu", "cos"),
    *("cosh", "deg2rad", "digamma", "elu", "erf", "erfc", "erfinv", "exp2", "expm1", "floor"),
    *("frac", "hardshrink", "hardsigmoid", "hardtanh", "i0", "isinf", "isnan", "isposinf"),
    *("leaky_relu", "lgamma", "log", "log10", "log1p", "log2", "logical_not", "logit", "mish"),
    *("nan_to_num", "reciprocal", "round", "sgn", "sigmoid", "sign", "signbit", "sin", "sinc"),
    *("sinh", "softplus", "softshrink", "special_entr", "special_erfcx", "special_i1", "sqrt"),
    *("tan", "trunc", "special_bessel_j0", "special_ndtri"),
)
BINARY = (
    *("add", "sub", "mul", "div", "remainder", "fmod", "floor_divide", "atan2", "copysign", "eq"),
    *("ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "maximum"),
    *("minimum", "fmax", "fmin", "hypot", "logaddexp", "logaddexp2", "nextafter", "xlogy"),
    *("heaviside", "igamma", "igammac", "special_zeta"),
)


def pointwise():
    import torch

    for name in UNARY:
        for z in (x(8, 128), x(8, 128, strides=(1, 8)), x(8, 128, strides=(256, 2))):
            yield call(f"{name}.default", z)
        if hasattr(torch.ops.aten, name + "_"):
            yield call(f"{name}_.default", x(8, 128))
    for name in BINARY:
        overload = getattr(torch.ops.aten, name).overloads()
        overload = "Tensor" if "Tensor" in overload else "default"
        for second in (
            x(8, 128),
            x(128),
            x(),
            x(8, 128, dtype="float64"),
            x(8, 128, strides=(1, 8)),
        ):
            yield call(f"{name}.{overload}", x(8, 128), second)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "gcd"):
        overload = "default" if name == "gcd" else "Tensor"
        yield call(f"{name}.{overload}", index(8, 128), index(128))
    for name in ("add", "mul", "pow", "eq", "remainder", "bitwise_and"):
        kind = index(8, 128) if name[0] == "b" else x(8, 128)
        yield call(f"{name}.{'Tensor_Scalar' if name == 'pow' else 'Scalar'}", kind, 2)
    yield call("clamp.default", x(8, 128), -1.0, 1.0)
    yield call("clamp.Tensor", x(8, 128), x(128), x())
    yield call("rsub.Scalar", x(8, 128), 1.0)
    yield call("pow.Scalar", 2.0, x(8, 128))
    yield call("pow.Tensor_Tensor", x(8, 128), x(8, 128, dtype=HALF))
    for name in ("sigmoid_backward", "logit_backward", "hardswish_backward"):
        yield call(f"{name}.default", x(8, 128), x(8, 128))
    yield call("leaky_relu_backward.default", x(8, 128), x(8, 128), 0.01, False)
    yield call("softplus_backward.default", x(8, 128), x(8, 128), 1, 20)
    yield call("elu_backward.default", x(8, 128), 1, 1, 1, False, x(8, 128))
    yield call("add.out", x(8, 128), x(8, 128), out=x(8, 128, strides=(1, 8)))
    yield call("mul.out", x(8, 128), x(8, 128), out=x(8, 128, dtype="float64"))


FAMILIES = (
    *(
        softmaxes,
        norms,
        products,
        reductions,
        reductions_into,
        lookups,
        scans_and_sorts,
        losses,
        optimizers,
        moves,
    ),
    pointwise,
)


def calls():
    for family in FAMILIES:
        yield from family()
