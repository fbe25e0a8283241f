"""The calls of layers for images, signals and volumes whose memory is recorded."""

import json
from itertools import product

from described import contiguous
from operator_calls import call, x

DTYPES = ("float32",)


def plain(*shape, dtype="float32"):
    return x(*shape, dtype=dtype)


def channels_last(*shape, dtype="float32"):
    order = (0, *range(2, len(shape)), 1)
    steps = contiguous([shape[dim] for dim in order])
    strides = dict(zip(order, steps, strict=True))
    return x(*shape, dtype=dtype, strides=tuple(strides[dim] for dim in range(len(shape))))


def gapped(*shape, dtype="float32"):
    """Every other element of each row of a larger tensor."""
    strides = contiguous([*shape[:-1], shape[-1] * 2])
    return x(*shape, dtype=dtype, strides=(*strides[:-1], 2))


def swapped(*shape, dtype="float32"):
    """The first two dimensions in the other order."""
    a, b, *rest = contiguous([shape[1], shape[0], *shape[2:]])
    return x(*shape, dtype=dtype, strides=(b, a, *rest))


def layouts(rank):
    return (plain, gapped, swapped, *((channels_last,) if rank in (4, 5) else ()))


def pairs(rank):
    """Layouts of two tensors."""
    first = layouts(rank)
    return [(a, b) for a, b in product(first, first) if plain in (a, b) or a == b]


def paddings():
    for rank, kind, dtype in product((1, 2, 3), ("reflection", "replication"), DTYPES):
        for batch in ((), (2,)):
            inner, outer = (8,) * rank, (11,) * rank
            small, large = (*batch, 4, *inner), (*batch, 4, *outer)
            for lay in layouts(len(small)):
                yield call(f"{kind}_pad{rank}d.default", lay(*small, dtype=dtype), [1, 2] * rank)
            for first, second in pairs(len(small)):
                grad, y = first(*large, dtype=dtype), second(*small, dtype=dtype)
                yield call(f"{kind}_pad{rank}d_backward.default", grad, y, [1, 2] * rank)


def upsamplings():
    kinds = [
        *(
            ("upsample_nearest1d", 1, ()),
            ("upsample_nearest2d", 2, ()),
            ("upsample_nearest3d", 3, ()),
        ),
        *((f"_upsample_nearest_exact{rank}d", rank, ()) for rank in (1, 2, 3)),
        *(("upsample_linear1d", 1, (False,)), ("upsample_bilinear2d", 2, (False,))),
        *(("upsample_bicubic2d", 2, (True,)), ("upsample_trilinear3d", 3, (False,))),
        *(("_upsample_bilinear2d_aa", 2, (False,)), ("_upsample_bicubic2d_aa", 2, (False,))),
    ]
    for (kind, rank, options), dtype in product(kinds, DTYPES):
        for small, large in ((8, 16), (16, 5)):
            shape, size = (2, 32, *(small,) * rank), [large] * rank
            for lay in layouts(rank + 2):
                y = lay(*shape, dtype=dtype)
                yield call(f"{kind}.default", y, size, *options)
                grad = lay(2, 32, *size, dtype=dtype)
                yield call(f"{kind}_backward.default", grad, size, list(shape), *options)


def average_pools():
    for rank, dtype, batch in product((2, 3), DTYPES, ((), (2,))):
        shape, half = (*batch, 6, *(8,) * rank), (*batch, 6, *(4,) * rank)
        for lay in layouts(len(shape)):
            y = lay(*shape, dtype=dtype)
            yield call(f"avg_pool{rank}d.default", y, [2] * rank)
            yield call(f"_adaptive_avg_pool{rank}d.default", y, [4] * rank)
            yield call(f"_adaptive_avg_pool{rank}d.default", y, [3] * rank)
        for first, second in pairs(len(shape)):
            grad, y = first(*half, dtype=dtype), second(*shape, dtype=dtype)
            pool = ([2] * rank, [2] * rank, [0] * rank, False, True, None)
            yield call(f"avg_pool{rank}d_backward.default", grad, y, *pool)
            yield call(f"_adaptive_avg_pool{rank}d_backward.default", grad, y)
            odd = first(*batch, 6, *(3,) * rank, dtype=dtype)
            if batch and rank == 2:
                y = channels_last(*shape, dtype=dtype)
                yield call("_adaptive_avg_pool2d_backward.default", odd, y)
            yield call(f"_adaptive_avg_pool{rank}d_backward.default", odd, y)


def largest_pools():
    for rank, dtype, batch in product((2, 3), DTYPES, ((), (2,))):
        shape, half = (*batch, 6, *(8,) * rank), (*batch, 6, *(4,) * rank)
        options = ([2] * rank, [2] * rank, [0] * rank, [1] * rank, False)
        places = plain(*half, dtype="int64")
        for lay in layouts(len(shape)):
            y = lay(*shape, dtype=dtype)
            yield call(f"max_pool{rank}d_with_indices.default", y, *options)
            yield call(f"adaptive_max_pool{rank}d.default", y, [4] * rank)
            sample = plain(*(batch or (1,)), 6, rank, dtype=dtype)
            yield call(f"fractional_max_pool{rank}d.default", y, [2] * rank, [4] * rank, sample)
            up = lay(*half, dtype=dtype), lay(*half, dtype="int64")
            sizes = ([8] * rank,) if rank == 2 else ([8] * rank, [2] * rank, [0] * rank)
            yield call(f"max_unpool{rank}d.default", *up, *sizes)
        for first, second in pairs(len(shape)):
            grad, y = first(*half, dtype=dtype), second(*shape, dtype=dtype)
            at = second(*half, dtype="int64")
            yield call(f"max_pool{rank}d_with_indices_backward.default", grad, y, *options, at)
            yield call(f"adaptive_max_pool{rank}d_backward.default", grad, y, at)
            fraction = ([2] * rank, [4] * rank, at if rank == 2 else places)
            yield call(f"fractional_max_pool{rank}d_backward.default", grad, y, *fraction)


def samplers():
    for dtype, mode, pad in product(DTYPES, (0, 1), (0, 1)):
        for lay in layouts(4):
            y, grid = lay(2, 4, 8, 8, dtype=dtype), plain(2, 5, 5, 2, dtype=dtype)
            grad = lay(2, 4, 5, 5, dtype=dtype)
            yield call("grid_sampler_2d.default", y, grid, mode, pad, False)
            for wanted in ([True, True], [False, True]):
                yield call(
                    "grid_sampler_2d_backward.default", grad, y, grid, mode, pad, False, wanted
                )
        for lay in layouts(5):
            y, grid = lay(2, 4, 6, 6, 6, dtype=dtype), plain(2, 5, 5, 5, 3, dtype=dtype)
            grad = lay(2, 4, 5, 5, 5, dtype=dtype)
            yield call("grid_sampler_3d.default", y, grid, mode, pad, False)
            for wanted in ([True, True], [False, True]):
                yield call(
                    "grid_sampler_3d_backward.default", grad, y, grid, mode, pad, False, wanted
                )


def shuffles():
    for dtype in DTYPES:
        for lay in layouts(4):
            y = lay(2, 16, 6, 6, dtype=dtype)
            yield call("pixel_shuffle.default", y, 2)
            yield call("pixel_unshuffle.default", y, 2)
            yield call("channel_shuffle.default", y, 4)
            yield call("rot90.default", y, 1, [2, 3])
            yield call("rot90.default", y, 2, [0, 1])
            yield call("roll.default", y, [1], [2])
            yield call("roll.default", y, [1, 2], [2, 3])
            yield call("roll.default", y, [1, 2, 3], [2, 3, 0])
            yield call("roll.default", y, [5])
            yield call("flip.default", y, [1, 2])
            yield call("unsafe_split.Tensor", y, 3, 1)
            yield call("unsafe_split_with_sizes.default", y, [6, 10], 1)
            yield call("im2col.default", y, [2, 2], [1, 1], [0, 0], [1, 1])
            yield call(
                "unfold_backward.default", lay(2, 16, 3, 2, dtype=dtype), [2, 16, 6], 2, 2, 2
            )
            yield call(
                "unfold_backward.default", lay(2, 16, 5, 2, dtype=dtype), [2, 16, 6], 2, 2, 1
            )
            yield call(
                "unfold_backward.default", lay(2, 16, 2, 2, dtype=dtype), [2, 16, 6], 2, 2, 3
            )
        for lay in layouts(3):
            y = lay(2, 16, 25, dtype=dtype)
            yield call("col2im.default", y, [6, 6], [2, 2], [1, 1], [0, 0], [1, 1])
        yield call("im2col.default", plain(16, 6, 6, dtype=dtype), [2, 2], [1, 1], [0, 0], [1, 1])
        yield call("im2col.default", gapped(16, 6, 6, dtype=dtype), [2, 2], [1, 1], [0, 0], [1, 1])
        yield call(
            "col2im.default", plain(16, 25, dtype=dtype), [6, 6], [2, 2], [1, 1], [0, 0], [1, 1]
        )
        yield call(
            "col2im.default", gapped(16, 25, dtype=dtype), [6, 6], [2, 2], [1, 1], [0, 0], [1, 1]
        )
    yield call("roll.default", plain(), [5])
    yield call("roll.default", plain(0, 3), [5, 1], [0, 1])


def halves():
    """A call of each operator in half precision."""
    seen = set()
    for family in FAMILIES:
        for row in family():
            if row["op"] not in seen:
                seen.add(row["op"])
                yield json.loads(json.dumps(row).replace("float32", "bfloat16"))


FAMILIES = (paddings, upsamplings, average_pools, largest_pools, samplers, shuffles)


def calls():
    for family in FAMILIES:
        yield from family()
    yield from halves()
