"""Operators that put a result whose size depends on values into a target."""

import pytest
import torch

from pytest_attnmem.errors import CannotSimulate

aten = torch.ops.aten


def values(dtype=torch.float32):
    return torch.tensor([0, 1, 0, 2, 2], dtype=dtype, device="cuda")


def target(dtype=torch.int64, device="cuda"):
    return torch.empty(0, dtype=dtype, device=device)


INTO = {
    "nonzero": lambda: torch.nonzero(values(), out=target()).tolist(),
    "masked_select": lambda: torch.masked_select(
        x := values(), x > 0, out=target(torch.float32)
    ).tolist(),
    "bincount": lambda: aten.bincount.out(values(torch.int64), out=target()).tolist(),
    "unique": lambda: aten._unique2.out(
        values(), out0=target(torch.float32), out1=target(), out2=target()
    )[0].tolist(),
    "on the host": lambda: torch.nonzero(values().cpu(), out=target(device="cpu")).tolist(),
}
FOUND = {
    "nonzero": [[1], [3], [4]],
    "masked_select": [1, 2, 2],
    "bincount": [2, 1, 2],
    "unique": [0, 1, 2],
    "on the host": [[1], [3], [4]],
}


@pytest.mark.parametrize("name", INTO)
def test_an_empty_target_gets_the_result(run, name):
    found = []
    assert run(lambda: found.append(INTO[name]())).unmeasured is None
    assert found == [FOUND[name]]


def test_an_empty_target_costs_what_the_result_does(run):
    assert run(lambda: torch.nonzero(torch.ones(1000, device="cuda"))).peak_bytes == 13_027
    into = run(lambda: torch.nonzero(torch.ones(1000, device="cuda"), out=target()))
    assert into.peak_bytes == 13_027


def test_a_target_with_memory_is_refused_in_one_line(run):
    def program():
        out = torch.empty(3, 1, dtype=torch.int64, device="cuda")
        with pytest.raises(CannotSimulate):
            torch.nonzero(values(), out=out)

    assert run(program).unmeasured == (
        "aten.nonzero.out into an out= that has memory cannot be simulated; give it an empty tensor"
    )


def test_a_target_of_another_dtype_is_pytorchs_error(run):
    def program():
        with pytest.raises(RuntimeError, match=r"to have dtype torch\.int64, but got torch\.float"):
            torch.nonzero(values(), out=target(torch.float32))

    assert run(program).peak_bytes == 20
