"""All gates pass good variants and fail bad ones, and each failure names the guilty line.

``tests/null/test_zoo.py`` does the same on the null device.
"""

import pytest
from zoo import table
from zoo.endings import caught, problems
from zoo.gates import run
from zoo.pair import pairs

PAIRS = pairs()
#: What explains regressions that others shipped.
TOPICS = {
    "dense_kernel": "scores",
    "mask_never_none": "mask",
    "mask_repeated": "mask",
    "keys_copied_for_heads": "copy",
    "logits_widened": "dtype",
    "scores_keep_their_name": "temporaries",
    "checkpointing_not_passed_on": "saved",
    "masks_kept_for_ever": "retained",
}


@pytest.fixture(scope="module")
def chosen(few):
    """The pairs that are run, those with a topic first."""
    names = few(sorted(PAIRS, key=lambda name: name not in TOPICS), lambda name: "any")
    return {name: one for name, one in PAIRS.items() if name in names}


@pytest.fixture(scope="module", params=["cpu", "simulated:H100"])
def endings(request, chosen):
    """The endings of all gates on a backend."""
    return run(request.param, chosen, forms=request.param == "cpu")


def test_pairs(endings, chosen):
    found = {name: problems(one, endings) for name, one in chosen.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_failure_names_what_explains_it(endings, chosen):
    for name in TOPICS.keys() & chosen.keys():
        text = endings[name, "formula", "bad"].text
        assert f"  attnmem explain {TOPICS[name]}" in text.splitlines()


def test_the_page_has_what_was_caught(endings, chosen):
    claimed = table.claimed()
    found = {name: caught(one, endings) for name, one in chosen.items()}
    assert found == {name: claimed[name] for name in chosen}


def test_the_page_is_current():
    assert table.PART.read() == table.table(dict.fromkeys(table.BACKENDS, table.claimed()))
