"""Samples of PyTorch's own database of operators against their recordings on the null device."""

import json

import pytest
from opinfo import OUTCOMES, in_other_ways, of_writes, outcomes
from recordings import read

TOLD = read("opinfo-outcomes")
EVERY = 20


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


def test_few_samples_are_refused_and_none_is_wrong_without_a_word():
    told = TOLD
    limits = {"counts": 7, "writes counts": 29, "ways counts": 7}
    for counts, percent in ((told[key], limit) for key, limit in limits.items()):
        assert counts["wrong"] == 0
        assert counts["crashed"] <= 1  # `linspace` between tensors under vmap
        assert counts["refused"] <= sum(counts.values()) * percent // 100
    assert len(json.dumps(told)) < 100_000
