"""Runs at sizes that no line reaches: several symbols larger together, or one of them small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..budgets.growth_contract import Contract
from ..budgets.growth_fit import Growth
from ..budgets.growth_judgement import Answer, Judgement, judge_line
from ..budgets.growth_over_formula import judge_difference
from ..errors import AttnMemError
from ..units import format_size
from .growth_runs import GrowthRuns, Unclear

#: Multiples of the test's own sizes; larger ones where no memory is needed.
_TIMES = (1, 2, 3, 4, 5, 6)
_FEW = 4


def judged_in_corners(
    runs: GrowthRuns, contract: Contract, lines: Mapping[str, Growth]
) -> Iterator[Judgement]:
    """Yields answers that are not on the lines, if the lines keep the contract.

    Raises:
        Unclear: the memory of a run is not known.
    """
    if any(line.judge(contract).answer is not Answer.KEPT for line in lines.values()):
        return
    named = [symbol for symbol in lines if contract.degree(symbol) > 0]
    others = [symbol for symbol in lines if symbol not in contract.symbols]
    bent = [s for s in others if _rises_to(lines[s], runs.sweep.size(s))]
    if bent and len(bent) + len(named) > 1:
        yield _together(runs, contract, [*lines], [*named, *bent])
    for symbol in others if runs.has_formula else ():
        over = [lines[symbol].over(at) for at in lines[symbol].peaks]
        if over[-1] < over[0]:
            yield from (_where_small(runs, contract, lines, symbol, one) for one in named)


def _rises_to(line: Growth, own: int) -> bool:
    """Returns True if less memory is needed below the test's own size than at it."""
    return min(line.over(at) for at in line.peaks if at[0] <= own) < line.over((own,))


def _together(runs: GrowthRuns, contract: Contract, every: list[str], bent: list[str]) -> Judgement:
    """Returns the answer for sizes that grow together: a minimum of two stands still on lines."""
    try:
        return _multiplied(runs, contract, every)
    except Unclear:
        raise
    except AttnMemError:  # some of them take few sizes
        try:
            return _multiplied(runs, contract, bent)
        except Unclear:
            raise
        except AttnMemError as error:
            names = " and ".join(bent)
            return Judgement(Answer.UNKNOWN, f"{names} were not varied together: {error}")


def _multiplied(runs: GrowthRuns, contract: Contract, symbols: list[str]) -> Judgement:
    """Returns the answer for multiples of the test's own sizes of *symbols*.

    Raises:
        AttnMemError: the test does not run there.
    """
    values = []
    tried = _TIMES if runs.sweep.upward else _TIMES[:_FEW]
    for times in tried:
        sizes = {symbol: runs.sweep.size(symbol) * times for symbol in symbols}
        run = runs.own if times == 1 else runs.run(sizes)
        values.append(run.nbytes - run.formula)
    power = max(sum(dict(one).get(s, 0) for s in symbols) for one in contract.allowed)
    allowed = Contract("", ((("times", max(power, 0)),),))
    judged = judge_line("times", tried, values, allowed, "")
    points = ", ".join(
        f"{format_size(value)} at {times} times the sizes"
        for times, value in zip(tried, values, strict=True)
    )
    names = " and ".join(symbols)
    return Judgement(
        judged.answer, f"{runs.metric} grows too fast where {names} grow together: {points}"
    )


def _where_small(
    runs: GrowthRuns, contract: Contract, lines: Mapping[str, Growth], symbol: str, named: str
) -> Judgement:
    """Returns the answer for one symbol where another, which the formula reads, is small.

    Under ``4*layers*N^2``, 8*N^2 bytes are too many for one layer.
    """
    (tried,) = lines[symbol].sizes.values()
    (axis,) = lines[named].sizes.values()
    why: AttnMemError | None = None
    for small in dict.fromkeys([1, *tried]):
        try:
            at = {(n,): runs.run({named: n, symbol: small}) for n in axis[:5]}
        except Unclear:
            raise
        except AttnMemError as error:
            why = why or error
            continue
        over: dict[tuple[int, ...], int] = {n: run.nbytes - run.formula for n, run in at.items()}
        judged = judge_difference(
            {named: tuple(n for (n,) in at)}, over, contract, f"{runs.metric} over the formula"
        )
        return Judgement(judged.answer, f"{judged.reason}, where {symbol}={small}", judged.terms)
    return Judgement(Answer.UNKNOWN, f"{symbol} and {named} were not varied together: {why}")
