"""Pointwise operators in place, whose other tensors have to fit into the first."""

import pytest
import torch

from pytest_attnmem.errors import CannotSimulate


@pytest.mark.parametrize(
    "name", ["add_", "fmod_", "eq_", "floor_divide_", "bitwise_and_", "atan2_", "pow_", "hypot_"]
)
def test_a_tensor_that_others_do_not_fit_into_is_not_written(run, name):
    dtype = torch.int64 if name == "bitwise_and_" else torch.float32

    def program(device="cuda"):
        x = torch.ones(3, 1, 2, device=device, dtype=dtype)
        getattr(x, name)(torch.ones(2, device=device, dtype=dtype))
        with pytest.raises(RuntimeError) as error:
            getattr(x, name)(torch.ones(3, 4, 2, device=device, dtype=dtype))
        assert x.tolist() == x.cpu().tolist()
        return str(error.value)

    said = []
    assert run(lambda: said.append(program())).unmeasured is None
    assert said == [program("cpu")]
    assert said[0] == "output with shape [3, 1, 2] doesn't match the broadcast shape [3, 4, 2]"


def test_tensors_that_fit_no_shape_have_pytorchs_error(run):
    def program():
        with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match"):
            torch.ones(3, device="cuda").fmod_(torch.ones(2, device="cuda"))

    run(program)


def test_a_sum_that_resizes_its_tensor_is_refused(run):
    def program():
        left, right = torch.ones(2, 3, 4, device="cuda"), torch.ones(2, 4, 5, device="cuda")
        torch.ones(3, 5, device="cuda").addbmm_(left, right)
        with pytest.raises(CannotSimulate, match="another shape than its result's resizes it"):
            torch.ones(1, device="cuda").addbmm_(left, right)

    run(program)
