"""Numbers that a kernel cannot convert to the dtype of its tensor; recorded on the null device."""

import math
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

from pytest_attnmem import measure
from pytest_attnmem.backends.simulated.number_checks import check_number
from pytest_attnmem.torch_releases import minor_version

HALF, INT8, UINT8 = torch.float16, torch.int8, torch.uint8
MESSAGE = "value cannot be converted to type {} without overflow"


def ones(dtype):
    return torch.ones(4, 4, device="cuda", dtype=dtype)


def mask():
    return torch.ones(4, 4, device="cuda", dtype=torch.bool)


def set_slice(number):
    x = ones(INT8)
    x[:, 0] = number


REFUSED = {
    "masked_fill": (lambda: ones(HALF).masked_fill(mask(), -1e9), "c10::Half"),
    "masked_fill_": (lambda: ones(INT8).masked_fill_(mask(), 300), "int8_t"),
    "fill_": (lambda: ones(HALF).fill_(1e9), "c10::Half"),
    "fill_diagonal_": (lambda: ones(HALF).fill_diagonal_(1e9), "c10::Half"),
    "full": (lambda: torch.full((4,), 300, dtype=UINT8, device="cuda"), "uint8_t"),
    "full_like": (lambda: torch.full_like(ones(HALF), 1e9), "c10::Half"),
    "new_full": (lambda: ones(HALF).new_full((4,), -1e9), "c10::Half"),
    "scatter": (lambda: ones(HALF).scatter(0, mask().long(), 1e9), "c10::Half"),
    "pad": (lambda: F.pad(ones(torch.int32), (1, 1), value=2**40), "int"),
    "pow": (lambda: ones(HALF) ** 1e9, "c10::Half"),
    "foreach": (lambda: torch._foreach_add([ones(INT8)], 300), "int8_t"),
    "set": (lambda: set_slice(math.nan), "int8_t"),
    "index_fill": (lambda: ones(HALF).index_fill(0, mask()[0].long(), 1e9), "c10::Half"),
}


def set_half():
    ones(HALF)[:, 0] = 1e9


TAKEN = {
    "clamp": lambda: ones(HALF).clamp(-1e9, 1e9),
    "clamp_": lambda: ones(HALF).clamp_(max=1e9),
    "hardtanh": lambda: F.hardtanh(ones(HALF), -1e9, 1e9),
    "infinity": lambda: ones(HALF).masked_fill(mask(), -math.inf),
    "nan": lambda: ones(HALF).fill_(math.nan),
    "bfloat16": lambda: ones(torch.bfloat16).masked_fill(mask(), -1e9),
    "negative": lambda: ones(UINT8).fill_(-1),
    "bool": lambda: ones(torch.bool).fill_(300),
    "first powers": lambda: ones(INT8) ** 1,
    "foreach of floats": lambda: torch._foreach_mul([ones(HALF)], 1e9),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_number_that_does_not_fit_raises(name):
    call, kind = REFUSED[name]
    with pytest.raises(RuntimeError) as raised:
        measure(call, backend="simulated:A100-80GB")
    assert str(raised.value) == MESSAGE.format(kind)


def test_a_number_that_is_set_in_half_precision():
    """A tensor of the number, before 2.15, holds infinity."""
    if minor_version(torch.__version__) < (2, 15):
        measure(set_half, backend="simulated:A100-80GB")
        return
    with pytest.raises(RuntimeError, match=f"^{MESSAGE.format('c10::Half')}$"):
        measure(set_half, backend="simulated:A100-80GB")


@pytest.mark.parametrize("name", TAKEN)
def test_a_number_that_fits_is_taken(name):
    measure(TAKEN[name], backend="simulated:A100-80GB")


def test_what_a_call_allocates_before_it_fails_is_not_known(run):
    def caught():
        with pytest.raises(RuntimeError, match=r"without overflow$"):
            ones(HALF).masked_fill(mask(), -1e9)

    assert run(caught).unmeasured == (
        "aten.masked_fill.Scalar fails on CUDA: " + MESSAGE.format("c10::Half")
    )


def test_a_write_allocates_nothing(run):
    def caught():
        x = ones(HALF)
        with pytest.raises(RuntimeError, match=r"without overflow$"):
            x.fill_(1e9)

    assert run(caught).unmeasured is None


def test_negative_powers_of_integers():
    with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
        measure(lambda: ones(INT8) ** -1, backend="simulated:A100-80GB")


@pytest.mark.parametrize(
    ("number", "dtype", "fits"),
    [
        (65504, HALF, True),
        (65505, HALF, False),
        (1e400, torch.float8_e4m3fn, False),
        (1e400, torch.float8_e5m2, True),
        (-255, UINT8, True),
        (-256, UINT8, False),
        (-1.0, UINT8, False),
        (math.nan, torch.int64, False),
        (1 + 1j, torch.float32, False),
        (1 + 0j, torch.float32, True),
        (2, torch.complex64, True),
        (True, INT8, True),
    ],
)
def test_conversion(number, dtype, fits):
    with nullcontext() if fits else pytest.raises(RuntimeError, match=r"without overflow$"):
        check_number(number, dtype)
