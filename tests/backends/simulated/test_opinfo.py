"""Samples of PyTorch's own database of operators against their recordings on the null device."""

import json

import error_inputs
import pytest
from opinfo import OUTCOMES, in_other_ways, of_writes, outcomes
from recordings import read

TOLD = read("opinfo-outcomes")
EVERY = 20


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_deterministic_algorithms_take_the_recorded_memory_or_raise():
    recorded = read("opinfo-deterministic")["peaks"]
    raising = [
        name for name, rows in recorded.items() if any(type(row) is str for row in rows.values())
    ]
    names = {*[*recorded][::EVERY], *raising[::EVERY]}
    found = outcomes(names, deterministic=True)
    assert {outcome.kind for outcome in found.values()} >= {"answered", "raises"}
    assert {
        name: outcome.why for name, outcome in found.items() if outcome.kind in ("wrong", "crashed")
    } == {}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("recording", "key", "of"),
    [
        ("opinfo", "operators", outcomes),
        ("opinfo-writes", "writes operators", of_writes),
        ("opinfo-ways", "ways operators", in_other_ways),
    ],
)
def test_a_sample_of_operators_is_as_told(recording, key, of):
    names = [*read(recording)["peaks"]][::EVERY]
    told = TOLD[key]
    found, wrong = {}, {}
    for name, outcome in of(set(names)).items():
        kinds = found.setdefault(name.split()[0], dict.fromkeys(OUTCOMES, 0))
        kinds[outcome.kind] += 1
        if outcome.kind in ("wrong", "crashed"):
            wrong[name] = outcome.why
    assert {name: {k: n for k, n in kinds.items() if n} for name, kinds in found.items()} == {
        name: told.get(name, {"answered": sum(found[name].values())}) for name in found
    }, wrong


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_a_call_that_raises_on_a_device_does_not_run():
    names = {*[*error_inputs.operators()][::4]}
    found = [*error_inputs.outcomes(names.__contains__)]
    assert {kind for _, kind, _ in found} >= {"raises the same", "refused"}
    assert [name for name, kind, _ in found if kind == "runs"] == []


def test_few_samples_are_refused_and_none_is_wrong_without_a_word():
    told = TOLD
    limits = {"counts": 3, "deterministic counts": 7, "writes counts": 15, "ways counts": 7}
    # PyTorch itself raises an internal assertion for linspace of tensors in vmap.
    crashed = {"ways counts": 1}
    for key, percent in limits.items():
        counts = told[key]
        assert (counts["wrong"], counts["crashed"]) == (0, crashed.get(key, 0))
        assert counts["refused"] <= sum(counts.values()) * percent // 100
    assert told["error counts"]["runs"] == 0
    assert len(json.dumps(told)) < 100_000
