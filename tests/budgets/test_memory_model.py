"""Memory models: live sets phase by phase, the largest of them, and scratch by device."""

from collections.abc import Callable

import pytest

from pytest_attnmem.budgets.memory_model import MemoryModel, Phase, evaluate
from pytest_attnmem.errors import BudgetError, FormulaError
from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.symbols.attention_shape import AttentionShape, Source, gather

SHAPE = gather([Source("test", {"B": 2, "H": 3, "N": 5, "d": 7, "itemsize": 4})])
SCORES, OUT = 2 * 3 * 5 * 5 * 4, 2 * 3 * 5 * 7 * 4

MODEL = MemoryModel(
    "example",
    (
        Phase("scores", {"scores": "B*H*N*M*itemsize"}, {"cuda": {"workspace": "8 MiB"}}),
        Phase("softmax", {"scores": "B*H*N*M*itemsize", "weights": "B*H*N*M*itemsize"}),
        Phase(
            "out",
            {"weights": "B*H*N*M*itemsize", "out": "B*H*N*dv*itemsize"},
            {"cpu": {"copies": "threads*d"}, "sm90": {"tiles": "128"}},
        ),
        Phase("mask", {"future": "causal*N*M"}),
    ),
    defaults={"causal": 0},
)


def test_the_peak_is_the_largest_live_set() -> None:
    assert MODEL.live(SHAPE) == {
        "scores": {"scores": SCORES},
        "softmax": {"scores": SCORES, "weights": SCORES},
        "out": {"weights": SCORES, "out": OUT},
        "mask": {"future": 0},
    }
    assert MODEL.peak(SHAPE) == SCORES + OUT
    assert MODEL.high_water(SHAPE) == "out"
    causal = AttentionShape({**SHAPE.symbols, "causal": 1})  # in the place of its default
    assert MODEL.live(causal)["mask"] == {"future": 5 * 5}
    twins = MemoryModel("twins", (Phase("a", {"x": "1"}), Phase("b", {"y": "1"})))
    assert twins.high_water(SHAPE) == "a"  # the first of phases alike


def test_scratch_counts_on_its_device_only() -> None:
    assert MODEL.peak(SHAPE, ("cuda",)) == SCORES + 8 * 1024**2
    assert MODEL.high_water(SHAPE, ("cuda",)) == "scores"
    assert MODEL.live(SHAPE, ("xpu",)) == MODEL.live(SHAPE)
    live = MODEL.live(SHAPE, iter(("sm90", "cuda")))  # of each of its kinds
    assert live["scores"]["workspace"] == 8 * 1024**2
    assert live["out"]["tiles"] == 128
    phase = Phase("product", {}, {"cuda": {"workspace": "8 MiB"}, "sm90": {"workspace": "32 MiB"}})
    # Of scratch by one name, that of the closest kind.
    assert MemoryModel("gemm", (phase,)).peak(SHAPE, ("sm90", "cuda")) == 32 * 1024**2


def test_a_device_that_needs_a_symbol_more_says_so() -> None:
    assert MODEL.symbols == {"B", "H", "N", "M", "dv", "d", "itemsize", "threads", "causal"}
    with pytest.raises(BudgetError, match=r"^symbol 'threads' has no value"):
        MODEL.peak(SHAPE, ("cpu",))


def test_symbols_that_disagree_are_told() -> None:
    shape = gather([Source("the marker", {"B": 1}), Source("qkv", {**SHAPE.symbols})])
    with pytest.raises(BudgetError) as error:
        MODEL.peak(shape)
    assert str(error.value) == "symbol 'B' has two values: B=1 from the marker, B=2 from qkv"


def test_a_formula_is_given_no_more_than_it_reads() -> None:
    conflicting = gather([Source("a", {"N": 3, "B": 1}), Source("b", {"B": 2})])
    assert evaluate(parse_formula("N*4"), conflicting) == 12


def test_a_phase_with_an_unreadable_formula_is_refused_where_it_is_written() -> None:
    with pytest.raises(FormulaError, match=r'^cannot read formula "2\*" at column 3'):
        Phase("a", {"x": "2*"})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: MemoryModel("empty", ()), "memory model 'empty' has no phase"),
        (
            lambda: MemoryModel("loop", (Phase("step", {"x": "1"}), Phase("step", {"x": "2"}))),
            "memory model 'loop' has two phases named 'step'",
        ),
        (
            lambda: Phase("softmax", {"scores": "N*M"}, {"cuda": {"scores": "8"}}),
            "phase 'softmax' has 'scores' as a tensor and as scratch on cuda",
        ),
    ],
    ids=["no phase", "two of a name", "a tensor's name"],
)
def test_phases_that_cannot_be_told_apart_are_refused(
    make: Callable[[], object], text: str
) -> None:
    with pytest.raises(BudgetError) as error:
        make()
    assert str(error.value) == text
