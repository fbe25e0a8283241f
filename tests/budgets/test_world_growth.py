"""The memory of a rank over the number of ranks: an exact fit, or no verdict."""

import pytest

from pytest_attnmem.budgets.growth_contract import parse_contract
from pytest_attnmem.budgets.growth_fit import FACTORS, WorldGrowth
from pytest_attnmem.budgets.growth_judgement import Answer
from pytest_attnmem.measurement.below_peak import Beneath, PartBelowPeak
from pytest_attnmem.measurement.held import Held

WORLDS = tuple(8 * factor for factor in FACTORS)
#: Values over WORLDS.
SHARDED = [2**20 // world for world in WORLDS]


def over(values, beneath=None):
    peaks = {(world,): value for world, value in zip(WORLDS, values, strict=True)}
    return WorldGrowth({"W": WORLDS}, peaks, beneath=beneath)


@pytest.mark.parametrize(
    ("values", "formula", "kept"),
    [
        (SHARDED, "1048576/W", {"O(1/W)", "O(1/W + 1)", "O(W)"}),
        ([400 + part for part in SHARDED], "400 + 1048576/W", {"O(1/W + 1)", "O(W)"}),
        (
            [4 * w + part for w, part in zip(WORLDS, SHARDED, strict=True)],
            "4*W + 1048576/W",
            {"O(W)"},
        ),
        ([64] * 5, "64", {"O(1/W + 1)", "O(W)"}),
        ([0] * 5, "0", {"O(1/W)", "O(1/W + 1)", "O(W)"}),
    ],
)
def test_a_fit_through_all_worlds_decides(values, formula, kept):
    growth = over(values)
    assert str(growth.polynomial) == formula
    answers = {
        text: growth.judge(parse_contract(text)) for text in ("O(1/W)", "O(1/W + 1)", "O(W)")
    }
    assert {text for text, one in answers.items() if one.answer is Answer.KEPT} == kept
    for text, one in answers.items():
        assert one.note == (f"peak is {formula}" if text in kept else "")
    broken = [one for one in answers.values() if one.answer is not Answer.KEPT]
    assert {(one.answer, one.reason) for one in broken} <= {
        (Answer.BROKEN, f"peak grows as {formula}")
    }


@pytest.mark.parametrize("change", [1, -1, 512])
@pytest.mark.parametrize("place", range(5))
def test_one_other_byte_in_one_world_is_no_verdict(place, change):
    values = [*SHARDED]
    values[place] += change
    judged = over(values).judge(parse_contract("O(1/W)"))
    assert judged.answer is Answer.UNKNOWN
    assert judged.reason.startswith("peak is not a/W + b + c*W: ")
    assert judged.reason.endswith(
        "; ranks have unequal parts, or other tensors at the peak; take sizes that W divides"
    )


def test_a_tensor_that_is_not_sharded_is_found_beneath_the_peak():
    held = Held(400, (100,), "float32", "ones", "ring.py:9")
    sharded = PartBelowPeak(Held(9, (9,), "float32", "mul", "ring.py:8"), tuple(SHARDED))
    beneath = Beneath({"W": WORLDS}, (sharded, PartBelowPeak(held, (400,) * 5), sharded))
    judged = over(SHARDED, beneath).judge(parse_contract("O(1/W)"))
    assert (judged.answer, judged.held) == (Answer.BROKEN, held)
    assert judged.reason == "ones at ring.py:9 grows as 400"
