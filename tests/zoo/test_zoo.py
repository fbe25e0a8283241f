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


@pytest.fixture(scope="module", params=["cpu", "simulated:H100"])
def endings(request):
    """The endings of all gates on a backend."""
    return run(request.param, forms=request.param == "cpu")


@pytest.mark.parametrize("name", PAIRS)
def test_pair(endings, name):
    assert problems(PAIRS[name], endings) == []


@pytest.mark.parametrize(("name", "topic"), TOPICS.items())
def test_a_failure_names_what_explains_it(endings, name, topic):
    assert f"  attnmem explain {topic}" in endings[name, "formula", "bad"].text.splitlines()


def test_the_page_has_what_was_caught(endings):
    assert {name: caught(one, endings) for name, one in PAIRS.items()} == table.claimed()


def test_the_page_is_current():
    assert table.written() == table.table(dict.fromkeys(table.BACKENDS, table.claimed()))
