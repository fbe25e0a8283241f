"""The list of ranks to run."""

import pytest

from pytest_attnmem.cli.rank_list import rank_list, shown_ranks
from pytest_attnmem.errors import AttnMemError


@pytest.mark.parametrize(
    ("text", "ranks", "shown"),
    [
        ("0,last", [0, 7], "0, 7"),
        ("all", [*range(8)], "0-7"),
        ("5-last, 1-2,1", [1, 2, 5, 6, 7], "1-2, 5-7"),
    ],
)
def test_ranks_are_listed_once_and_in_order(text, ranks, shown):
    assert rank_list(text, 8) == ranks
    assert shown_ranks(ranks) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("first", "--rank: found 'first'; expected all, or ranks such as 0,last or 0-3"),
        ("8", "--rank: found '8'; expected ranks from 0 to 7, as in 0,last"),
        ("3-1", "--rank: found '3-1'; expected ranks from 0 to 7, as in 0,last"),
    ],
)
def test_other_lists_are_refused(text, message):
    with pytest.raises(AttnMemError) as caught:
        rank_list(text, 8)
    assert str(caught.value) == message
