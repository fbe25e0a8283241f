"""Inputs: their shapes and values, and that no window counts them."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from pytest_attnmem.api.attnmem import AttnMem
from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.errors import BudgetError
from pytest_attnmem.measurement import qkv_inputs
from pytest_attnmem.measurement.qkv_inputs import qkv, shape_of


@pytest.fixture(scope="module")
def memory() -> AttnMem:
    primed = open_primed("cpu")
    return AttnMem(lambda name: primed)


@pytest.mark.parametrize(
    ("options", "q", "k", "v"),
    [
        ({}, (2, 4, 6, 8), (2, 4, 6, 8), (2, 4, 6, 8)),
        ({"Hkv": 2}, (2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8)),
        ({"M": 3}, (2, 4, 6, 8), (2, 4, 3, 8), (2, 4, 3, 8)),
        ({"dv": 5}, (2, 4, 6, 8), (2, 4, 6, 8), (2, 4, 6, 5)),
        ({"Hkv": 1, "M": 3, "dv": 5}, (2, 4, 6, 8), (2, 1, 3, 8), (2, 1, 3, 5)),
    ],
    ids=["alike", "Hkv", "M", "dv", "all"],
)
def test_shapes(options: dict[str, int], q: Any, k: Any, v: Any) -> None:
    tensors = qkv(2, 4, 6, 8, **options)  # type: ignore[arg-type]
    assert [tensor.shape for tensor in tensors] == [q, k, v]
    assert all(tensor.is_contiguous() for tensor in tensors)


@pytest.mark.parametrize(
    ("options", "dtype", "requires_grad"),
    [
        ({}, torch.float32, False),
        ({"dtype": torch.float64}, torch.float64, False),
        ({"dtype": torch.float16}, torch.float16, False),
        ({"dtype": torch.bfloat16, "requires_grad": True}, torch.bfloat16, True),
    ],
)
def test_tensors_are_leaves_on_the_cpu_of_the_dtype_and_with_gradients_if_asked(
    options: dict[str, Any], dtype: torch.dtype, requires_grad: bool
) -> None:
    for tensor in qkv(1, 1, 2, 3, **options):
        assert (tensor.dtype, tensor.device.type) == (dtype, "cpu")
        assert (tensor.requires_grad, tensor.is_leaf) == (requires_grad, True)


def test_values_are_the_same_each_time_and_draw_nothing_from_the_tests_own() -> None:
    first = qkv(1, 2, 3, 4)
    torch.manual_seed(99)
    torch.rand(3)
    state = torch.random.get_rng_state()
    assert all(map(torch.equal, first, qkv(1, 2, 3, 4)))
    assert torch.equal(state, torch.random.get_rng_state())


def test_values_differ_by_seed_and_by_tensor() -> None:
    q, k, v = qkv(1, 2, 3, 4)
    assert not torch.equal(q, qkv(1, 2, 3, 4, seed=1)[0])
    assert not torch.equal(q, k)
    assert not torch.equal(k, v)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_inputs_made_in_a_window_are_not_counted(memory: AttnMem, requires_grad: bool) -> None:
    measured = memory.measure(qkv, 2, 4, 64, 16, requires_grad=requires_grad)
    assert (measured.peak_bytes, measured.retained_bytes, measured.allocations) == (0, 0, 0)


def test_nor_is_their_free_though_they_are_made_again(memory: AttnMem) -> None:
    def body() -> torch.Tensor:
        for _ in range(3):
            q, k, v = qkv(2, 4, 64, 16)
            out = torch.ones(10)
            del q, k, v
            other = torch.ones(20)
            del other
        return out

    measured = memory.measure(body)
    # A round's result is alive until the next one is made.
    assert (measured.peak_bytes, measured.retained_bytes) == ((10 + 20) * 4, 10 * 4)


def test_tensors_computed_from_inputs_are_counted(memory: AttnMem) -> None:
    def body() -> torch.Tensor:
        q, _, _ = qkv(1, 2, 3, 4, requires_grad=True)
        q.backward(torch.ones_like(q))
        return q

    # The gradient itself, which autograd keeps as it is.
    assert memory.measure(body).retained_bytes == 2 * 3 * 4 * 4


def test_inputs_are_left_out_of_every_open_window(memory: AttnMem) -> None:
    with memory.region("outer") as outer:
        before = torch.ones(5)
        with memory.region("inner") as inner:
            tensors = qkv(2, 4, 64, 16)
            scratch = torch.ones(7)
            del tensors, scratch
        after = torch.ones(6)
        del before, after
    assert inner.measurement is not None
    assert outer.measurement is not None
    assert (inner.measurement.peak_bytes, inner.measurement.retained_bytes) == (7 * 4, 0)
    assert (outer.measurement.peak_bytes, outer.measurement.retained_bytes) == (12 * 4, 0)


def test_the_pause_gets_every_storage_of_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    storages: list[torch.UntypedStorage] = []
    monkeypatch.setattr(qkv_inputs, "pause", lambda: nullcontext(storages.append))
    tensors = qkv(1, 2, 3, 4, dtype=torch.float16)
    assert [storage.data_ptr() for storage in storages] == [tensor.data_ptr() for tensor in tensors]


@pytest.mark.parametrize(
    ("sizes", "options", "name", "got"),
    [
        ((0, 1, 1, 1), {}, "B", "0"),
        ((1, -1, 1, 1), {}, "H", "-1"),
        ((1, 1, 2.0, 1), {}, "N", "2.0"),
        ((1, 1, 1, "8"), {}, "d", "'8'"),
        ((1, 2**63, 1, 1), {}, "H", "9223372036854775808"),
        ((True, 1, 1, 1), {}, "B", "True"),
        ((1, 2, 1, 1), {"Hkv": 0}, "Hkv", "0"),
        ((1, 1, 1, 1), {"M": 0}, "M", "0"),
        ((1, 1, 1, 1), {"dv": 0}, "dv", "0"),
    ],
)
def test_sizes_that_are_not_possible_are_refused(
    sizes: tuple[Any, ...], options: dict[str, Any], name: str, got: str
) -> None:
    with pytest.raises(BudgetError) as error:
        qkv(*sizes, **options)
    whole = "a whole number >= 1 and < 2**63"
    assert str(error.value) == f"qkv needs {name} to be {whole}, got {got}"


@pytest.mark.parametrize("H", [2, 6])
def test_key_value_heads_divide_the_heads(H: int) -> None:
    with pytest.raises(BudgetError) as error:
        qkv(1, H, 1, 1, Hkv=4)
    assert str(error.value) == f"qkv needs H to be a multiple of Hkv, got H={H} Hkv=4"


def test_the_symbols_of_a_call() -> None:
    call = {"B": 2, "H": 4, "N": 6, "d": 8, "seed": 3, "device": "cpu", "requires_grad": True}
    alike = {"B": 2, "H": 4, "Hkv": 4, "N": 6, "M": 6, "d": 8, "dv": 8, "dtype": "float32"}
    made = shape_of(call)
    assert (made.label, made.values, made.assumed) == ("qkv", alike, {"Hkv", "M", "dv"})
    apart = {"Hkv": 2, "M": 3, "dv": 5, "dtype": torch.float16}
    given = shape_of({**call, **apart})
    assert (given.values, given.assumed) == ({**alike, **apart}, frozenset())
    assert shape_of({**call, "Hkv": None, "dtype": None}).values == alike


def test_a_device_that_is_not_here_is_told_in_one_line() -> None:
    with pytest.raises(BudgetError) as error:
        qkv(1, 1, 2, 2, device="mtia")
    assert str(error.value) == (
        "qkv needs a device that is here, got 'mtia'; without device=, the fixture makes the inputs"
        " on the backend's device"
    )
