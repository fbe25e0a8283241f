import os
import shutil
import subprocess
import sys

import pytest
import torch

from pytest_attnmem.backends.simulated.pytorch_device.accelerator import works_in_child
from pytest_attnmem.backends.simulated.pytorch_device.tensors import Addresses
from pytest_attnmem.backends.simulated.session.process import process_device

#: As on a Mac: MPS is the accelerator, until CUDA is.
BESIDE_MPS = """
import torch
from pytest_attnmem.backends.simulated.pytorch_device.accelerator import ABIS, Tables
from pytest_attnmem.backends.simulated.pytorch_device.accelerator import make_cuda_accelerator
tables = Tables(ABIS["linux"])
tables.answer("MPS", [tables.first_function(tables.new_guard())])
assert str(torch._C._accelerator_getAccelerator()) == "mps"
make_cuda_accelerator()
assert str(torch._C._accelerator_getAccelerator()) == "cuda"
"""


@pytest.fixture
def without_fork(monkeypatch):
    """Returns what sets a platform where a fork is not safe, or where there is none."""

    def on(platform):
        monkeypatch.setattr("sys.platform", platform)
        monkeypatch.delattr(os, "fork")

    return on


def test_on_other_systems_it_is_not_tried(without_fork):
    without_fork("freebsd14")
    assert not works_in_child()


@pytest.mark.thorough  # starts an interpreter
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_a_new_process_tries_it_where_a_fork_is_not_safe(without_fork, platform):
    without_fork(platform)
    assert works_in_child()


def test_a_new_process_that_fails_leaves_it_untried_here(without_fork, monkeypatch):
    without_fork("darwin")
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert not works_in_child()


@pytest.mark.skipif(torch.version.cuda is not None, reason="a build for CUDA is none for MPS")
@pytest.mark.thorough  # starts an interpreter
def test_a_process_with_another_accelerator_has_cuda_alone():
    subprocess.run([sys.executable, "-c", BESIDE_MPS], check=True)


def test_a_guard_that_pytorch_has_replaced_already_is_replaced_again():
    process_device()
    assert works_in_child()


def test_no_address_is_handed_out_twice():
    addresses = Addresses()
    first, second, third = (addresses.take(nbytes) for nbytes in (1, 513, 1))
    assert (second - first, third - second) == (512, 1024)
