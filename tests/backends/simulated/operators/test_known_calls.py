import pytest
import torch

from pytest_attnmem.backends.simulated.operators.known_calls import (
    KnownCall,
    KnownCalls,
    key_of,
)

ADD = torch.ops.aten.add.Tensor


@pytest.mark.parametrize(
    ("one", "other"),
    [((0.0,), (-0.0,)), ((1,), (1.0,)), ((1,), (True,)), (([1, 2],), (([1], 2),)), ((), (None,))],
)
def test_calls_that_differ_have_two_keys(one, other):
    assert key_of(ADD, one, {}) != key_of(ADD, other, {})


def test_the_default_dtype_is_a_part_of_a_key():
    before = key_of(ADD, (1,), {})
    torch.set_default_dtype(torch.float64)
    try:
        assert key_of(ADD, (1,), {}) != before
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("arg", [torch.ones(2), torch.Generator()])
def test_a_call_that_depends_on_more_has_none(arg):
    assert key_of(ADD, (arg,), {}) is None


def test_not_a_number_is_equal_to_itself():
    assert key_of(ADD, (float("nan"),), {}) == key_of(ADD, (float("nan"),), {})


def test_a_full_cache_begins_anew(monkeypatch):
    monkeypatch.setattr("pytest_attnmem.backends.simulated.operators.known_calls.MOST", 2)
    calls, known = KnownCalls(), KnownCall((), (), lambda args, made: None, is_one=False)
    for number in range(3):
        calls.remember((number,), known)
    assert [calls.find((number,)) is known for number in range(3)] == [False, False, True]


def test_a_result_keeps_the_places_of_what_is_no_new_tensor():
    new, argument = torch.ones(1), torch.ones(2)
    known = KnownCall.of((None, new, 3), (argument,), [new], (), ())
    assert known is not None
    assert known.result((argument,), [argument]) == (None, argument, 3)
    assert KnownCall.of([argument], (argument,), [], (), ()) is None  # a list with an argument
    returned = KnownCall.of(argument, (1, argument), [], (), ())
    assert returned is not None
    assert returned.result((1, new), []) is new
