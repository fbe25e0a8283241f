"""Contracts on bodies whose growth is known by arithmetic: none is judged wrong, few not at all."""

import pytest
from growth import contracts, table


@pytest.mark.parametrize("backend", ["cpu", "simulated:H100"])
def test_every_contract_is_judged_right_or_not_at_all(simulation_imported, few, backend):
    chosen = few(contracts.cases(backend), lambda case: case.holds)
    assert [*table.problems(backend, contracts.run(backend, chosen), chosen)] == []


def test_the_page_shows_the_bodies():
    assert table.PART.read() == table.table(), "python tests/growth/table.py writes the page"


def test_there_are_bodies_of_both_kinds_and_few_contracts_without_an_answer():
    assert len(contracts.bodies()) >= 60
    for backend, unanswered in table.UNANSWERED.items():
        every = contracts.cases(backend)
        assert {case.holds for case in every} == {True, False}
        assert {*unanswered} <= {(case.body, case.contract) for case in every}
        assert len(unanswered) * 10 <= len(every)


def test_a_wrong_verdict_would_be_seen():
    case = contracts.Case("ring_buffer", "O(window*width)", holds=True)
    found = dict.fromkeys(contracts.cases("cpu"), ("within", ""))
    wrong = [*table.problems("cpu", found)]
    assert "cpu, all_scores, O(N*d): within, not over: " in wrong
    assert not any(line.startswith(f"cpu, {case.body}, {case.contract}:") for line in wrong)
