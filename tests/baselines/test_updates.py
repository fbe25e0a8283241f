"""The updates of a baseline's entries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.baselines.entries import Entry, Key, moved, with_all, with_new, without


def key(test: str = "test_a.py::test", on: str = "cpu", region: str = "") -> Key:
    return Key(test, region, "peak", on)


def keys(places: list[str]) -> st.SearchStrategy[Key]:
    return st.builds(key, st.sampled_from("abc"), st.sampled_from(places), st.sampled_from("fg"))


def entries(places: list[str]) -> st.SearchStrategy[dict[Key, Entry]]:
    return st.dictionaries(keys(places), st.builds(Entry, st.integers(0, 3)))


ANY = entries(["cpu", "cuda X", "cpu torch2.13", "cpu torch2.15"])
#: A session has one version of torch.
MEASURED = entries(["cuda X", "cpu torch2.15"])


@given(ANY, MEASURED)
def test_updates_write_what_they_say(before: dict[Key, Entry], measured: dict[Key, Entry]) -> None:
    every, new = with_all(before, measured), with_new(before, measured)
    assert every == {**{k: v for k, v in before.items() if k in every}, **measured}
    assert {k[:3] for k in every} == {k[:3] for k in {**before, **measured}}
    assert set(new) == {*before, *measured}
    assert all(new[k] == before.get(k, measured.get(k)) for k in new)
    assert without(every, measured) == {k: v for k, v in every.items() if k not in measured}


@given(ANY, MEASURED, MEASURED)
def test_two_updates_of_different_tests_may_come_in_either_order(
    before: dict[Key, Entry], one: dict[Key, Entry], other: dict[Key, Entry]
) -> None:
    other = {k: v for k, v in other.items() if k not in one}
    assert with_all(with_all(before, one), other) == with_all(with_all(before, other), one)


OLD, NOW, NONE = "cpu torch2.13", "cpu torch2.15", "cpu"
RESULT = {key(on=NOW): Entry(9)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([key(on=OLD)], [key(on=NOW)]),  # an upgrade
        ([key(on=NONE)], [key(on=NOW)]),
        ([key(on=OLD), key(on=NONE)], [key(on=NOW)]),
        ([key(on="cpu torch2.16")], [key(on=NOW)]),  # a downgrade
        ([key("other", OLD)], [key("other", OLD), key(on=NOW)]),  # it was not measured
        ([key(on=f"cpu threads2 torch{2.13}")], [key(on="cpu threads2 torch2.13"), key(on=NOW)]),
        # Two versions are kept side by side: this one is added, or updated.
        ([key(on=OLD), key(on=NOW)], [key(on=OLD), key(on=NOW)]),
        (
            [key("other", OLD), key("other", NOW), key(on=OLD)],
            [key("other", OLD), key("other", NOW), key(on=OLD), key(on=NOW)],
        ),
        (
            [key(on=OLD), key(on="cpu torch2.14"), key(on=NONE)],
            [key(on=OLD), key(on="cpu torch2.14"), key(on=NOW)],
        ),
    ],
)
def test_all_moves_an_entry_unless_versions_are_kept_side_by_side(
    before: list[Key], after: list[Key]
) -> None:
    assert with_all(dict.fromkeys(before, Entry(1)), RESULT) == {
        **dict.fromkeys(after, Entry(1)),
        **RESULT,
    }


def test_an_entry_of_several_threads_gives_way_to_that_of_one() -> None:
    now = {key(on="cpu threads1 torch2.15"): Entry(9)}
    assert with_all({key(on="cpu threads4 torch2.15"): Entry(1)}, now) == now


def test_new_keeps_both_versions() -> None:
    assert {*with_new({key(on=OLD): Entry(1)}, RESULT)} == {key(on=OLD), key(on=NOW)}


def test_a_part_of_an_upgrade_leaves_the_rest_to_be_moved() -> None:
    before = {key("a", OLD): Entry(1), key("b", OLD): Entry(2)}
    half = with_all(before, {key("a", NOW): Entry(1)})
    after = {key("a", NOW): Entry(1), key("b", NOW): Entry(2)}
    assert with_all(half, {key("b", NOW): Entry(2)}) == after


def test_moves_are_told_from_additions() -> None:
    before = {key("a", OLD): Entry(1), key("b", OLD): Entry(1), key("c", NONE): Entry(1)}
    after = {key(test, NOW): Entry(2) for test in "acd"}
    assert moved(before, {**after, key("b", OLD): Entry(1)}) == {
        key("a", NOW): key("a", OLD),
        key("c", NOW): key("c", NONE),
    }
