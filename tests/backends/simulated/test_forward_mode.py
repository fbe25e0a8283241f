"""Forward-mode gradients have the peaks of PyTorch's allocator, to the byte, or are refused."""

import pytest
import torch
from forward_programs import PROGRAMS
from recordings import read
from torch.autograd import forward_ad
from torch.func import grad

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # forward_ad's own
RECORDED = read("forward_programs")["devices"]


@pytest.mark.parametrize("device", RECORDED)
def test_each_program_has_the_recorded_peaks(run, device):
    found = {}
    for name in RECORDED[device]:
        seen = run(PROGRAMS[name], device, primed=False)
        assert seen.unmeasured is None, name
        found[name] = [seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes]
    assert found == RECORDED[device]


def test_every_program_is_recorded_on_a_device():
    assert {*RECORDED["A100-80GB"]} == {*PROGRAMS}


def test_without_a_tangent_such_an_operator_is_answered(run):
    def norm():
        with forward_ad.dual_level():
            torch.nn.functional.layer_norm(torch.ones(5, 64, device="cuda"), (64,))

    assert run(norm).unmeasured is None


@pytest.mark.usefixtures("kept_workspaces")
@pytest.mark.parametrize("product", [torch.dot, torch.vdot])
def test_a_product_with_a_constants_tangent_takes_no_memory(run, product):
    """The constant's tangent is zeros without memory, and so is the product with it."""

    def program():
        x, constant = torch.ones(50, device="cuda"), torch.ones(50, device="cuda")
        return torch.func.jvp(lambda x: product(x, constant), (x,), (x * 2,))

    assert run(program).peak_bytes == 3 * 200 + 3 * 4


def test_the_formulas_end_with_the_outermost_level(run):
    def product():
        torch.ones(64, device="cuda", requires_grad=True).prod().backward()

    def after_a_level():
        with forward_ad.dual_level():
            pass
        product()

    seen, expected = run(after_a_level), run(product)
    assert (seen.unmeasured, seen.peak_bytes) == (None, expected.peak_bytes)


def test_the_tangent_of_a_constant_has_no_memory_after_its_level_too(run):
    def program():
        x = torch.ones(1000, device="cuda")
        with forward_ad.dual_level():
            zero = forward_ad.unpack_dual(forward_ad.make_dual(x, x) * 2 * 0 + x).tangent
        return zero

    assert run(program).retained_bytes == 4000


def test_a_tensor_in_a_transform_is_on_the_device(run):
    seen = []

    def function(x):
        seen.append((str(x.device), x.is_cuda, x.is_cpu, x.is_meta, x.get_device()))
        return x.to("cuda").prod()

    assert run(lambda: grad(function)(torch.ones(4, device="cuda"))).unmeasured is None
    assert seen == [("cuda:0", True, False, False, 0)]
