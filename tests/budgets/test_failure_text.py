"""The failure text, word for word."""

from dataclasses import replace

import pytest

from pytest_attnmem.budgets.budget import Budget
from pytest_attnmem.budgets.failure_text import explain
from pytest_attnmem.budgets.growth_fit import Growth
from pytest_attnmem.budgets.verdict import judge
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.measurement import Measurement
from pytest_attnmem.symbols.attention_shape import AttentionShape

MIB = 1024**2
SHAPE = AttentionShape({})
SCORES = Held(
    64 * MIB,
    (1, 8, 2048, 2048),
    "float16",
    "softmax",
    "attn.py:31",
    "attention",
    dims=("B", "H", "N", "N"),
)
OUT = Held(2 * MIB, (1, 8, 2048, 64), "float16", "bmm", "attn.py:5")
BUDGET = Budget(
    9 * MIB // 2,
    "2*B*H*N*d*itemsize + B*H*N*4",
    {"B": 1, "H": 8, "N": 2048, "d": 64, "itemsize": 2},
    "test_attn.py:12",
)


@pytest.fixture
def over(seen: Measurement) -> Measurement:
    return replace(seen, peak_bytes=153 * MIB // 2, device="cuda:0", held=(SCORES, OUT))


def test_the_text(over: Measurement) -> None:
    assert explain(judge(over, BUDGET), SHAPE).splitlines() == [
        "peak 76.5 MiB exceeds budget 4.5 MiB (17.0x) on cuda:0",
        "  budget    2*B*H*N*d*itemsize + B*H*N*4   B=1 H=8 N=2048 d=64 itemsize=2   "
        "test_attn.py:12",
        "  held at the peak (2 tensors):",
        "    64.0 MiB  [1, 8, 2048, 2048] float16  softmax  attn.py:31  in attention  ← B·H·N·N",
        "     2.0 MiB  [1, 8, 2048, 64] float16    bmm      attn.py:5",
        "  attnmem explain scores",
    ]


def test_a_regression_says_what_came_in_and_what_to_do(over: Measurement) -> None:
    change = "+2*B*H*N^2: one more float16 [B, H, N, N], softmax at attn.py:31"
    verdict = replace(judge(over, Budget(9 * MIB // 2)), change=change, hint="or write it down")
    lines = explain(verdict, SHAPE).splitlines()
    assert lines[1:3] == [f"  grew      {change}", "  held at the peak (2 tensors):"]
    assert lines[-2:] == ["  or write it down", "  attnmem explain scores"]


def test_a_budget_tells_no_more_than_there_is(seen: Measurement) -> None:
    text = explain(judge(seen, Budget(1, "1 B")), SHAPE)
    assert text.splitlines()[1:] == ["  budget    1 B", "  attnmem explain parts"]
    starved = replace(seen, out_of_memory="tried to allocate 9 B")
    assert explain(judge(starved, Budget(None)), SHAPE).splitlines() == [
        "out of memory on cpu: tried to allocate 9 B with 1.0 KiB held",
        "  attnmem explain out-of-memory",
    ]


@pytest.mark.parametrize(
    ("held", "note", "lines"),
    [
        ((OUT,), "and 8 B of scratch inside kernels", [
            "  held at the peak (1 tensor):",
            "    2.0 MiB  [1, 8, 2048, 64] float16  bmm  attn.py:5",
            "  and 8 B of scratch inside kernels",
            "  attnmem explain temporaries",
        ]),
        ((), "held tensors are unknown: no second run", [
            "  held tensors are unknown: no second run",
            "  attnmem explain parts",
        ]),
    ],
)  # fmt: skip
def test_a_note_follows_what_was_held(
    over: Measurement, held: tuple[Held, ...], note: str, lines: list[str]
) -> None:
    noted = replace(over, held=held, held_note=note)
    assert explain(judge(noted, BUDGET), SHAPE).splitlines()[2:] == lines


def test_a_long_list_ends_with_the_rest_together(over: Measurement) -> None:
    held = tuple(replace(OUT, nbytes=nbytes) for nbytes in range(3012, 3000, -1))
    lines = explain(judge(replace(over, held=held), BUDGET), SHAPE).splitlines()
    assert lines[2] == "  held at the peak (12 tensors):"
    assert len(lines) == 3 + 10 + 2
    assert lines[-2] == "    and 2 more, 5.9 KiB together"


def test_a_librarys_line_comes_second_and_the_holder_on_a_line_of_its_own(
    over: Measurement,
) -> None:
    made = replace(OUT, by="einops/_backends.py:291")
    kept = [replace(made, holder=f"Loop.outputs[{place}]") for place in range(2)]
    saved = replace(SCORES, holder="saved by Scatter.ctx.kept[0]", dims=())
    lines = explain(judge(replace(over, held=(saved, *kept)), BUDGET), SHAPE).splitlines()
    assert [line.rstrip() for line in lines[3:]] == [
        "       64.0 MiB  [1, 8, 2048, 2048] float16  softmax  attn.py:31"
        "                             in attention",
        "                 saved by Scatter.ctx.kept[0]",
        "    2 × 2.0 MiB  [1, 8, 2048, 64] float16    bmm      attn.py:5, by"
        " einops/_backends.py:291",
        "                 held by Loop.outputs[0], Loop.outputs[1]",
        "  attnmem explain scores",
    ]


def test_some_of_the_tensors_have_holders_of_two_kinds(over: Measurement) -> None:
    holders = [f"Cache.k[{place}]" for place in range(5)] + ["saved by MulBackward0", "", ""]
    kept = tuple(replace(OUT, holder=holder) for holder in holders)
    lines = explain(judge(replace(over, held=kept), BUDGET), SHAPE).splitlines()
    assert lines[4].strip() == (
        "6 of 8 held by Cache.k[0], Cache.k[1], Cache.k[2] and 2 others; saved by MulBackward0"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("4*n + 64", []),
        ("8*n", ["  grows     as 4*n + 4096; the budget as 8*n"]),
        ("n*log2(n)", ["  grows     as 4*n + 4096; the budget as log2(n)*n"]),
        ("n^0.5", ["  grows     as 4*n + 4096; the budget as n^(1/2)"]),
    ],
    ids=["alike", "faster", "no polynomial", "a root"],
)
def test_the_budget_has_its_growth_where_it_is_another(
    over: Measurement, text: str, told: list[str]
) -> None:
    sizes = (2, 3, 4, 5)
    growth = Growth({"n": sizes}, {(size,): 4 * size + 4096 for size in sizes})
    budget = Budget(4096, text, {"n": 1024}, "test_it.py:3")
    verdict = replace(judge(replace(over, held=()), budget), growths=(growth,))
    assert explain(verdict, AttentionShape({"n": 1024})).splitlines()[2:-1] == told


def test_the_growth_names_an_argument_that_the_budget_does_not(over: Measurement) -> None:
    sizes = (2, 3, 4, 5)
    layers = Growth({"layers": sizes}, {(size,): 4096 * size for size in sizes})
    rows = Growth({"n": sizes}, {(size,): 8192 for size in sizes})
    steps = Growth({"steps": sizes}, {(size,): 8192 for size in sizes})
    budget = Budget(4096, "4*n", {"n": 1024}, "test_it.py:3")
    verdict = replace(judge(replace(over, held=()), budget), growths=(rows, layers, steps))
    assert explain(verdict, AttentionShape({"n": 1024})).splitlines()[2:] == [
        "  grows     not with n; the budget as 4*n",
        "  grows     as 4096*layers; the budget does not name layers",
        "  attnmem explain parts",
    ]
