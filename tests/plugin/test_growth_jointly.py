"""The bytes over a formula in two symbols: right for random programs and formulas, or unknown."""

from types import SimpleNamespace
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.budgets.growth_contract import parse_contract
from pytest_attnmem.budgets.growth_fit import Growth
from pytest_attnmem.budgets.growth_judgement import Answer
from pytest_attnmem.errors import BudgetError
from pytest_attnmem.plugin.growth_jointly import judged_jointly
from pytest_attnmem.plugin.growth_runs import Run

OWN = {"N": 512, "d": 64}
SIZES = {"N": (64, 128, 192, 256, 512), "d": (8, 16, 24, 32, 64)}
#: The bytes of O(N*d) at these sizes; as many may not grow.
UNIT = 512 * 64
#: The powers of N and d; the last two outgrow O(N*d).
TERMS = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1))

terms = st.tuples(*(st.sampled_from([0, 0, 1, 4, 64]) for _ in TERMS))


def value(program, N, d):
    fixed, *growing = program
    terms = zip(growing, TERMS[1:], strict=True)
    return fixed * UNIT + sum(c * N**n * d**m for c, (n, m) in terms)


class Runs:
    """Runs of a program that needs what *program* says, under a budget of *formula*."""

    metric = "peak"
    has_formula = True
    values: ClassVar = {}

    def __init__(self, program, formula):
        self.program, self.formula = program, formula
        self.own = self.run(OWN)
        self.sweep = SimpleNamespace(size=OWN.__getitem__)

    def run(self, sizes):
        at = OWN | sizes
        return Run(value(self.program, **at), 1, value(self.formula, **at))

    def traced(self, symbols, runs):
        raise BudgetError("it does not run under a tracker")

    def line(self, symbol):
        runs = {(size,): self.run({symbol: size}) for size in SIZES[symbol]}
        return Growth(
            {symbol: SIZES[symbol]},
            {at: run.nbytes for at, run in runs.items()},
            formula_bytes={at: run.formula for at, run in runs.items()},
        )


def judged(program, formula, contract):
    runs = Runs(program, formula)
    lines = {symbol: runs.line(symbol) for symbol in SIZES}
    parsed = parse_contract(contract)
    jointly = judged_jointly(runs, parsed, lines, [])
    answers = [line.judge(parsed).answer for line in lines.values()]
    return min([*answers, *([jointly.answer] if jointly else [])])


@settings(deadline=None)
@given(terms, terms, st.sampled_from(["O(N*d)", "O(N*d + 1)"]))
def test_a_verdict_is_right_for_any_program_and_formula(program, formula, contract):
    over = [a - b for a, b in zip(program, formula, strict=True)]
    answer = judged(program, formula, contract)
    grows = [factor for factor in over[4:] if factor]
    if not grows or max(grows) < 0:
        at_own = value(over, **OWN)
        fixed = at_own > 0 and over[0] > 1 and contract == "O(N*d)"
        alone = [
            over[0] * UNIT + over[2] * OWN["d"],  # what N does not change
            over[0] * UNIT + over[1] * OWN["N"] + over[4] * OWN["N"] ** 2,  # what d does not change
        ]
        within = not fixed or min(alone) <= 0
        assert answer is (Answer.KEPT if within else Answer.BROKEN)
    elif min(grows) > 0:
        assert answer is Answer.BROKEN
    else:
        assert answer is not Answer.KEPT


def test_a_formula_that_is_right_at_the_tests_own_sizes_only_is_found():
    program, formula = (0, 0, 0, 4, 0, 1), (0, 0, 0, 0, 64, 0)  # 64 is the d of the test
    assert judged(program, formula, "O(N*d)") is not Answer.KEPT


def test_bytes_that_only_one_symbol_changes_are_not_fixed():
    assert judged((0, 8, 8, 4, 0, 0), (0, 0, 0, 0, 0, 0), "O(N*d)") is Answer.KEPT
    assert judged((1, 8, 8, 4, 0, 0), (0, 0, 0, 0, 0, 0), "O(N*d)") is Answer.KEPT
    assert judged((2, 8, 8, 4, 0, 0), (0, 0, 0, 0, 0, 0), "O(N*d)") is Answer.BROKEN
