"""The table of kernels comes from their files, and asks for torch only when it is read."""

import subprocess
import sys

import pytest

from pytest_attnmem import kernels
from pytest_attnmem.errors import BudgetError
from pytest_attnmem.kernels import KERNELS, flash
from pytest_attnmem.kernels.registry import find_named, kernel_named

LAZY = """
import sys
import pytest_attnmem.kernels
assert "torch" not in sys.modules
pytest_attnmem.kernels.KERNELS
assert "torch" in sys.modules
assert "pytest_attnmem.kernels._flash_triton_programs" not in sys.modules
assert pytest_attnmem.kernels.linear.KERNEL.name == "linear"
"""


def test_rows_are_in_the_order_of_their_names():
    names = [kernel.name for kernel in KERNELS]
    assert names == sorted(set(names))
    assert {"standard", "flash", "sdpa-flash", "sdpa-math"} <= {*names}


def test_a_row_is_the_row_of_its_file():
    assert kernel_named("flash") is flash.KERNEL
    assert kernel_named("flash").attention is flash.attention


def test_torch_and_the_triton_programs_wait():
    subprocess.run([sys.executable, "-c", LAZY], check=True)


def test_another_name_is_no_file():
    with pytest.raises(AttributeError, match=r"module 'pytest_attnmem\.kernels' has no attribute"):
        _ = kernels.no_such_kernel


@pytest.mark.parametrize(
    ("name", "hint"), [("flsh", "; did you mean 'flash'?"), ("?", ";"), (1, ";")]
)
def test_a_name_that_is_unknown(name, hint):
    with pytest.raises(BudgetError) as caught:
        find_named(name, {"flash": 1, "linear": 2})
    assert str(caught.value) == f"unknown kernel {name!r}{hint} expected one of flash, linear"
