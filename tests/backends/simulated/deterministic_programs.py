"""Programs under ``torch.use_deterministic_algorithms``: nobody's choice, and scatters.

PyTorch fills new memory then, and sorts the places that it scatters values to. A program without a
deterministic algorithm raises on a device, and is not recorded.
"""

import itertools

import mended_programs
import random_programs
import torch
import torch.nn.functional as F
from torch.utils import deterministic

SIZES = (5, 4097, 20_000, 1_000_001)
DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int64)
PROGRAMS = {}


def flagged(function, fill=True):
    def run():
        torch.use_deterministic_algorithms(True)
        deterministic.fill_uninitialized_memory = fill
        try:
            function()
        finally:
            deterministic.fill_uninitialized_memory = True
            torch.use_deterministic_algorithms(False)

    return run


def add(name, function, fill=True):
    PROGRAMS[name] = flagged(function, fill)


def made(*shape, dtype=torch.float32, grad=False):
    return torch.ones(shape, dtype=dtype, device="cuda").requires_grad_(grad)


def places(*shape, dtype=torch.int64):
    return torch.zeros(shape, dtype=dtype, device="cuda")


for module in (random_programs, mended_programs):
    for key, found in module.PROGRAMS.items():
        add(f"{module.__name__} {key}", found)


def scans():
    for size, dtype in itertools.product(SIZES, DTYPES):
        add(f"cumsum {size} {dtype}", lambda n=size, t=dtype: made(n, dtype=t).cumsum(0))
        add(f"cumsum_ {size} {dtype}", lambda n=size, t=dtype: made(n, dtype=t).cumsum_(0))
    add("logcumsumexp", lambda: made(9000).logcumsumexp(0))
    add("cumprod", lambda: made(9000).cumprod(0))
    add("range", lambda: torch.range(1, 700, device="cuda"))
    add("window", lambda: torch.hann_window(700, device="cuda"))
    add("angle", lambda: (made(90, dtype=torch.complex64).angle(), made(90).angle()))
    add("cumsum of rows", lambda: made(30, 500).cumsum(1))
    add(
        "cumsum of halves in floats",
        lambda: made(9000, dtype=torch.float16).cumsum(0, dtype=torch.float32),
    )


def sorts():
    for rows, size in itertools.product((1, 3, 200), (40, 3000, 20_000)):
        add(f"sort {rows} {size}", lambda r=rows, n=size: made(r, n).sort(dim=1))
        add(f"topk {rows} {size}", lambda r=rows, n=size: made(r, n).topk(3))
    add("argsort of columns", lambda: made(500, 30).argsort(dim=0))


SHAPES = {
    "one row": ((9,), 0, (4,), (4,)),
    "first": ((9, 7), 0, (5, 7), (5, 7)),
    "last": ((9, 7), -1, (9, 3), (9, 3)),
    "larger source": ((9, 7), 1, (4, 3), (6, 5)),
    "three": ((9, 7, 5), 1, (9, 2, 5), (9, 2, 5)),
    "one place": ((9, 7), 0, (1, 1), (1, 1)),
    "no place": ((9, 7), 0, (0, 7), (0, 7)),
    "many": ((300, 200), 1, (300, 90), (300, 90)),
}


def scatters():
    for name, (shape, dim, index, source) in SHAPES.items():
        for op in ("scatter", "scatter_add"):
            for dtype in (torch.float32, torch.float16):

                def both(op=op, dtype=dtype, shape=shape, dim=dim, index=index, source=source):
                    x, values = made(*shape, dtype=dtype), made(*source, dtype=dtype)
                    getattr(x, op)(dim, places(*index), values)
                    getattr(x, f"{op}_")(dim, places(*index), values)

                add(f"{op} {name} {dtype}", both)
        for reduce in ("sum", "mean", "amax"):

            def reduced(reduce=reduce, shape=shape, dim=dim, index=index, source=source):
                x, values = made(*shape), made(*source)
                x.scatter_reduce(dim, places(*index), values, reduce)
                x.scatter_reduce(dim, places(*index), values, reduce, include_self=False)

            add(f"scatter_reduce {reduce} {name}", reduced)

        def gathered(shape=shape, dim=dim, index=index):
            made(*shape, grad=True).gather(dim, places(*index)).sum().backward()

        add(f"gradient of gather {name}", gathered)
    add("scatter into columns", lambda: made(7, 9).t().scatter_(0, places(3, 2), made(3, 2)))
    add("scatter of columns", lambda: made(9, 7).scatter(0, places(3, 2), made(2, 3).t()))
    add("scatter by columns", lambda: made(9, 7).scatter_add(0, places(2, 3).t(), made(3, 2)))
    add("scatter of a number", lambda: made(9, 7).scatter(0, places(3, 2), 1.0))


def rows():
    for dim, count in itertools.product((0, 1), (1, 6, 200)):
        source = (count, 50) if dim == 0 else (60, count)

        def changed(dim=dim, count=count, source=source):
            x, values = made(60, 50), made(*source)
            x.index_add(dim, places(count), values, alpha=2)
            x.index_add_(dim, places(count), values)
            x.index_copy(dim, places(count), values)
            x.index_copy_(dim, places(count), values)
            x.index_fill_(dim, places(count), 0)

        add(f"rows {dim} {count}", changed)

        def selected(dim=dim, count=count):
            made(60, 50, grad=True).index_select(dim, places(count)).sum().backward()

        add(f"gradient of index_select {dim} {count}", selected)

    def put(x, index, values, accumulate):
        x.index_put_(index, values, accumulate)
        x.index_put(index, values, accumulate)

    for accumulate in (False, True):
        add(
            f"put {accumulate}",
            lambda a=accumulate: put(made(60, 50), (places(7),), made(7, 50), a),
        )
        add(
            f"put pairs {accumulate}",
            lambda a=accumulate: put(made(60, 50), (places(7),) * 2, made(7), a),
        )
        add(
            f"put one {accumulate}",
            lambda a=accumulate: put(made(60, 50), (places(7),), made(1), a),
        )
    add("gradient of an index", lambda: made(60, 50, grad=True)[places(7)].sum().backward())


def embeddings():
    for count, dtype in itertools.product((5, 4000), (torch.int64, torch.int32)):

        def embedded(count=count, dtype=dtype):
            F.embedding(places(count, dtype=dtype), made(100, 32, grad=True)).sum().backward()

        add(f"embedding {count} {dtype}", embedded)

    def bag():
        F.embedding_bag(places(6, 4), made(100, 32, grad=True), mode="sum").sum().backward()

    add("embedding bag", bag)


def resized():
    add("resize_", lambda: places(0).resize_(700))
    add("resize_ larger", lambda: made(500).resize_(700))
    add("resize_ smaller", lambda: made(500).resize_(7))
    add("add into nothing", lambda: torch.add(made(300), 1, out=made(0)))
    add("sum into nothing", lambda: torch.sum(made(30, 40), 0, out=made(0)))
    add("cat into nothing", lambda: torch.cat([made(300), made(300)], out=made(0)))
    add("matmul into nothing", lambda: torch.mm(made(30, 40), made(40, 50), out=made(0)))
    add("arange into nothing", lambda: torch.arange(40, out=places(0)))
    add("where into nothing", lambda: torch.where(made(300) > 0, made(300), made(300), out=made(0)))
    add("add into a tensor", lambda: torch.add(made(300), 1, out=made(300)))


def optimizers():
    for kind, options in itertools.product(
        (torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad),
        ({"foreach": True}, {"foreach": False}, {"fused": True}),
    ):

        def trained(kind=kind, options=options):
            model = torch.nn.Linear(30, 20, device="cuda")
            optimizer = kind(model.parameters(), lr=0.1, **options)
            for _ in range(2):
                model(made(7, 30)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()

        add(f"{kind.__name__} {options}", trained)


def layers():
    for dtype in (torch.float32, torch.float16):

        def attended(dtype=dtype):
            q, k, v = (made(2, 3, 70, 64, dtype=dtype, grad=True) for _ in range(3))
            F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()

        add(f"attention {dtype}", attended)
        for shape in ((4, 6), (4, 6, 5), (4, 6, 5, 5)):

            def normed(dtype=dtype, shape=shape):
                norm = torch.nn.GroupNorm(3, 6, device="cuda", dtype=dtype)
                norm(made(*shape, dtype=dtype, grad=True)).sum().backward()

            add(f"group norm {shape} {dtype}", normed)
    add("cross entropy", lambda: F.cross_entropy(made(9, 7, grad=True), places(9)).backward())
    add("allclose", lambda: torch.allclose(made(50, 60), made(50, 60)))
    add("isclose", lambda: torch.isclose(made(50, 60), made(50, 60)))
    add("logsumexp", lambda: made(50, 60, grad=True).logsumexp(1).sum().backward())
    add("var_mean", lambda: torch.var_mean(made(50, 60), dim=1))
    add(
        "padded",
        lambda: F.pad(made(2, 3, 8, 9, grad=True), (1, 1, 2, 2), "replicate").sum().backward(),
    )
    add(
        "bilinear",
        lambda: (
            F.interpolate(made(2, 3, 8, 9, grad=True), (5, 5), mode="bilinear").sum().backward()
        ),
    )
    add("unfold", lambda: made(2, 50, grad=True).unfold(1, 5, 2).sum().backward())
    add("repeat_interleave", lambda: made(9, 4, grad=True).repeat_interleave(3, 0).sum().backward())


for each in (scans, sorts, scatters, rows, embeddings, resized, optimizers, layers):
    each()
add("arange, not filled", lambda: torch.arange(5, device="cuda"), fill=False)
add("scatter, not filled", lambda: made(9, 7).scatter(0, places(5, 7), made(5, 7)), fill=False)
add("resize_, not filled", lambda: places(0).resize_(700), fill=False)
add("where, not filled", lambda: torch.where(made(9) > 0, made(9), made(9)), fill=False)
