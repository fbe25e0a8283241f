"""The calls of losses, distances, selections, samples and copies whose memory is recorded."""

from itertools import product

from layer_calls import gapped, plain, swapped
from operator_calls import call, x

INT = "int64"
HALF = "bfloat16"


def losses():
    shapes = ((5, 5), (), (1000, 3000))
    for dtype, shape, reduced in product(("float32", HALF), shapes, (0, 1, 2)):
        for lay in (plain, gapped) if shape else (plain,):
            a, b = lay(*shape, dtype=dtype), plain(*shape, dtype=dtype)
            grad = b if reduced == 0 else x(dtype=dtype)
            for weight in (None, b):
                yield call("binary_cross_entropy.default", a, b, weight, reduced)
                yield call("binary_cross_entropy_backward.default", grad, a, b, weight, reduced)
            yield call("soft_margin_loss.default", a, b, reduced)
            yield call("soft_margin_loss_backward.default", grad, a, b, reduced)
            row = plain(*shape[1:], dtype=dtype)
            for weight, positive in ((None, None), (row, None), (None, row), (b, row)):
                given = (a, b, weight, positive, reduced)
                yield call("binary_cross_entropy_with_logits.default", *given)


def losses_of_images():
    for dtype, reduced in product(("float32", HALF), (0, 1, 2)):
        weight, total = plain(5, dtype=dtype), x(dtype=dtype)
        grad = plain(3, 7, 8, dtype=dtype) if reduced == 0 else total
        for lay, classes in product((plain, gapped), (plain, gapped)):
            given = (lay(3, 5, 7, 8, dtype=dtype), classes(3, 7, 8, dtype=INT), None, reduced, -100)
            yield call("nll_loss2d_forward.default", *given)
        y, t = plain(3, 5, 7, 8, dtype=dtype), gapped(3, 7, 8, dtype=INT)
        yield call("nll_loss2d_forward.default", y, t, weight, reduced, -100)
        yield call("nll_loss2d_backward.default", grad, y, t, weight, reduced, -100, total)


def weights():
    for dtype, lay in product(("float32", HALF), (plain, gapped, swapped)):
        y, w = lay(8, 16, 32, dtype=dtype), x(1, 16, 1, dtype=dtype)
        yield call("_prelu_kernel.default", y, w)
        yield call("_prelu_kernel_backward.default", y, y, w)
    for dtype, shape in product(("float32", HALF), ((8, 16), (64, 32, 3, 3), (512,))):
        for dim in sorted({0, len(shape) - 1}):
            sizes = [shape[at] if at == dim else 1 for at in range(len(shape))]
            v, g, norm = x(*shape, dtype=dtype), x(*sizes, dtype=dtype), x(*sizes)
            yield call("_weight_norm_interface.default", v, g, dim)
            yield call("_weight_norm_interface_backward.default", v, v, g, norm, dim)


def scatters():
    kinds = ("sum", "prod", "mean", "amax", "amin")
    for dtype, kind, own in product(("float32", HALF, INT), kinds, (True, False)):
        for lay in (plain, gapped):
            y, at = lay(10, 50, dtype=dtype), x(5, 40, dtype=INT)
            given = (y, 0, at, x(5, 40, dtype=dtype), kind)
            yield call("scatter_reduce.two", *given, include_self=own)
            yield call("scatter_reduce_.two", *given, include_self=own)
            if kind != "sum":
                given = (y, 1, x(40, dtype=INT), x(10, 40, dtype=dtype), kind)
                yield call("index_reduce.default", *given, include_self=own)
                yield call("index_reduce_.default", *given, include_self=own)


def distances():
    sizes = ((5, 7, 3), (50, 60, 64), (30, 20, 3), (2, 3000, 2000))
    for dtype, p, (n, m, d) in product(("float32", "float64"), (0.0, 1.5, 2.0), sizes):
        for batch in ((), (2,)):
            a, b = x(*batch, n, d, dtype=dtype), x(*batch, m, d, dtype=dtype)
            for mode in (0, 1, 2):
                yield call("_cdist_forward.default", a, b, p, mode)
            far = x(*batch, n, m, dtype=dtype)
            yield call("_cdist_backward.default", far, a, b, p, far)
            if p == 2:
                yield call("_euclidean_dist.default", a, b)
        yield call("_pdist_forward.default", x(10, 6, dtype=dtype), p)
        yield call("_pdist_backward.default", *(x(45), x(10, 6), p, x(45)))


def selections():
    shapes = (((8, 16, 32), -1), ((8, 16, 32), 0), ((3, 5000), 1), ((5000, 3), 0))
    for dtype, lay, (shape, dim) in product(("float32", HALF), (plain, gapped, swapped), shapes):
        y = lay(*shape, dtype=dtype)
        yield call("kthvalue.default", y, 2, dim)
        yield call("median.dim", y, dim)
        yield call("nanmedian.dim", y, dim, True)
        if shape[dim] <= 2048:
            yield call("mode.default", y, dim)
    for shape in ((3, 5), (30, 50), (3, 5000), (1000, 3000)):
        yield call("median.default", plain(*shape))
    yield call("mode.default", plain(3, 2048))
    yield call("mode.default", plain(3, 1500), 0)


def largest():
    rows = (
        *(((20_000,), 5), ((1, 32_000), 50), ((8, 32_000), 50), ((2, 128_000), 50)),
        *(((64, 50_257), 40), ((4, 16_000), 2048), ((4, 16_000), 3000), ((300, 5000), 5)),
        *(((4000, 900), 7), ((1, 1_000_000), 10), ((2, 9, 20_000), 3), ((20_000, 900), 7)),
    )
    for dtype, (shape, k) in product(("float32", HALF, INT, "float64"), rows):
        yield call("topk.default", plain(*shape, dtype=dtype), k)
    yield call("topk.default", plain(64, 50_257), 40, -1, True, False)
    yield call("topk.default", swapped(3, 40_000), 5)
    yield call("topk.default", plain(40_000, 3), 5, 0)
    yield call("topk.default", plain(3, 50), 0)
    yield call("topk.default", plain(), 1)


def samples():
    for dtype, shape in product(("float32", HALF), ((5,), (3, 5000), (64, 32_000), (1, 32_000))):
        yield call("multinomial.default", plain(*shape, dtype=dtype), 3, True)
        yield call("bernoulli.default", plain(*shape, dtype=dtype))
        yield call("normal.Tensor_float", plain(*shape, dtype=dtype), 1.0)
    yield call("multinomial.default", gapped(4, 100), 2, True)


def bags():
    sizes = ((10, 20, 5, 4), (5000, 1000, 64, 200), (100, 3000, 33, 50))
    for dtype, (count, rows, columns, bags), mode in product(("float32", HALF), sizes, (0, 1, 2)):
        w, i, o = plain(rows, columns, dtype=dtype), x(count, dtype=INT), x(bags, dtype=INT)
        for last in (False, True):
            given = (w, i, o, False, mode, False, None, last)
            yield call("_embedding_bag.default", *given)
            yield call("_embedding_bag_forward_only.default", *given)
        largest = x(bags, columns, dtype=INT) if mode == 2 else o
        given = (plain(bags, columns, dtype=dtype), i, i, o, largest, rows, False, mode, None)
        yield call("_embedding_bag_dense_backward.default", *given)
    i, o = x(10, dtype=INT), x(4, dtype=INT)
    given = (plain(4, 5), plain(20, 5), i, o, i, 0)
    yield call("_embedding_bag_per_sample_weights_backward.default", *given)


def copies():
    for lay in (plain, gapped, swapped):
        y, z = lay(8, 16, 32), lay(16, 16)
        yield call("alias_copy.default", y)
        yield call("as_strided_copy.default", y, [3, 4], [1, 3])
        yield call("diagonal_copy.default", z)
        yield call("expand_copy.default", y, [2, 8, 16, 32])
        yield call("narrow_copy.default", y, 1, 2, 5)
        yield call("permute_copy.default", y, [2, 0, 1])
        yield call("squeeze_copy.default", lay(1, 8, 1))
        yield call("squeeze_copy.dim", lay(1, 8, 1), 0)
        yield call("squeeze_copy.dims", lay(1, 8, 1), [0])
        yield call("unsqueeze_copy.default", y, 1)
        yield call("t_copy.default", z)
        yield call("transpose_copy.int", y, 0, 1)
        yield call("unbind_copy.int", y, 1)
        yield call("detach_copy.default", y)
        yield call("select_copy.int", y, 0, 1)
        yield call("slice_copy.Tensor", y, 1, 2, 9)
        yield call("fill.Scalar", y, 1.0)
        yield call("fill.Tensor", y, x())
        yield call("rsub.Tensor", y, y)
        yield call("rsub.Scalar", y, 1)
        yield call("trace.default", z)
        yield call("linalg_cross.default", lay(5, 4, 3), plain(1, 4, 3))
        yield call("block_diag.default", [z, z])
        yield call("put.default", y, gapped(5, dtype=INT), gapped(5), True)
        yield call("put_.default", y, plain(5, dtype=INT), plain(5))
    yield call("normal.float_float", 0.0, 1.0, [4, 5], device="cuda")


def composed():
    for dtype, lay in product(("float32", HALF), (plain, gapped, swapped)):
        y = lay(8, 16, 32, dtype=dtype)
        yield call("dist.default", y, y, 2)
        yield call("dist.default", y, plain(16, 32, dtype=dtype), 1)
        yield call("count_nonzero.default", y)
        yield call("count_nonzero.dim_IntList", y, [0, 1])
        yield call("mvlgamma.default", y, 3)
        for other in ("float32", HALF, "float16", "float64", "int32", "bool"):
            yield call("ldexp.Tensor", y, plain(32, dtype=other))
            yield call("ldexp.Tensor", plain(32, dtype=dtype), lay(8, 16, 32, dtype=other))
    yield call("count_nonzero.default", plain(1000, 3000))
    yield call("dist.default", plain(1000, 3000), plain(1000, 3000))
    for dtype, shape in product(("float32", HALF, "bool", "uint8", INT), ((), (1,), (5,))):
        y = x(*shape, dtype=dtype)
        for op in ("any", "all"):
            yield call(f"{op}.default", y)
            yield call(f"{op}.dims", y, [])
            yield call(f"{op}.dim", y, 0)


FAMILIES = (
    *(losses, losses_of_images, weights, scatters, distances, selections, largest, samples),
    *(bags, copies, composed),
)


def calls():
    for family in FAMILIES:
        yield from family()
