"""One operator on the CPU: dtypes, targets, modes, and what the CPU cannot compute."""

import gc
import math
import weakref

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_attnmem.errors import CannotCompute
from pytest_attnmem.values.compute import compute

aten = torch.ops.aten


def test_an_operator_of_the_cpu_is_run(run):
    assert run("nonzero", torch.tensor([0, 3, 0, 5])).tolist() == [[1], [3]]
    found = run("_unique2", torch.tensor([4, 2, 4]), True, True, True)
    assert [one.tolist() for one in found] == [[2, 4], [1, 0, 1], [1, 2]]


def test_the_devices_arguments_become_those_of_the_cpu(run):
    on_device = {"device": torch.device("cuda"), "pin_memory": False, "layout": torch.strided}
    assert run("zeros", [2], **on_device).tolist() == [0, 0]
    assert run("_to_copy", torch.ones(2), dtype=torch.int64, **on_device).tolist() == [1, 1]
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    found = run("rand.generator", [3], generator=torch.Generator(), device=torch.device("cuda"))
    assert torch.equal(found, expected)


def test_a_target_is_written_in_place(run):
    whole = torch.zeros(4)
    row = whole[1:3]
    assert run("add_.Tensor", row, torch.ones(2)) is row
    assert whole.tolist() == [0, 1, 1, 0]
    out = torch.empty(2)
    assert run("add.out", row, row, out=out) is out
    assert out.tolist() == [2, 2]


def test_a_narrow_dtype_that_the_cpu_lacks_is_computed_wider(run):
    eights = torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)
    found = run("add.Tensor", eights, eights)
    assert found.dtype == eights.dtype
    assert found.float().tolist() == [2, 4]
    halves = torch.tensor([[2.0, 0.0], [0.0, 4.0]], dtype=torch.float16)
    found = run("_fft_r2c", halves, [1], 0, True)
    assert found.dtype == torch.complex32
    assert found.to(torch.complex64).tolist() == [[2, 2], [4, -4]]


def test_a_narrow_target_is_written_and_what_it_overlaps_is_not_lost(run):
    whole = torch.tensor([1.0, 2.0, 3.0]).to(torch.float8_e4m3fn)
    target, other = whole[:2], whole[1:]
    found = run("mul_.Tensor", target, other)
    assert found is target
    assert whole.float().tolist() == [2, 6, 3]
    listed = [torch.ones(2).to(torch.float8_e5m2) for _ in range(2)]
    run("_foreach_mul_.Scalar", listed, 4)
    assert [one.float().tolist() for one in listed] == [[4, 4], [4, 4]]


def test_fused_optimizers_take_their_scalars_as_tensors(run):
    def state():
        return [[torch.full((3,), number)] for number in (1.0, 8.0, 0.5, 0.25)]

    def step(name, *more, **options):
        parameters, grads, first, second = state()
        lists = (parameters, grads, first, second, [], [torch.tensor(3.0)])
        run(name, *lists, *more, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False,
            maximize=False, **options)  # fmt: skip
        return parameters[0]

    plain = step("_fused_adamw_", lr=0.1)
    by_tensor = step("_fused_adamw_.tensor_lr", lr=torch.tensor(0.1))
    assert torch.equal(plain, by_tensor)
    assert not torch.equal(plain, torch.ones(3))
    scaled = step("_fused_adamw_", lr=0.1, grad_scale=torch.tensor(1.0), found_inf=torch.zeros(()))
    assert torch.equal(scaled, plain)
    stopped = step("_fused_adamw_", lr=0.1, grad_scale=torch.ones(()), found_inf=torch.ones(()))
    assert torch.equal(stopped, torch.ones(3))


def test_gradients_are_unscaled_and_infinities_found(run):
    grads, found = [torch.tensor([2.0, 4.0]), torch.tensor([float("inf")])], torch.zeros(())
    run("_amp_foreach_non_finite_check_and_unscale_", grads, found, torch.tensor(0.5))
    assert (grads[0].tolist(), found.item()) == ([1, 2], 1)


class Refusing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise AssertionError(func)


class RefusingFunctions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise AssertionError(func)


def test_modes_autocast_and_autograd_take_no_part():
    left, right = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    with (
        torch.autocast("cpu", torch.bfloat16),
        torch.inference_mode(),
        Refusing(),
        RefusingFunctions(),
    ):
        found = compute(aten.mm.default, (left, right), {})
    assert (found.dtype, found.requires_grad, found.is_inference()) == (torch.float32, False, False)
    found += 1  # a tensor of inference mode would refuse this


class Computing(TorchDispatchMode):
    """Computes the operators that the program dispatches, as the tape does later."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return compute(func, args, kwargs or {})


def test_inside_a_dispatch_mode_an_equivalent_may_use_autograd():
    torch.manual_seed(0)
    x, states = torch.randn(3, 2, 4), torch.zeros(1, 2, 5)
    weights = [torch.randn(5, 4), torch.randn(5, 5)]
    rest = (1, 5, 0, 1, False, 0.0, True, False, [], None)
    given = (x, weights, 2, None, states, None)

    def both():
        out, _, _, reserve, buffer = aten._cudnn_rnn.default(*given, *rest)
        return aten._cudnn_rnn_backward.default(
            x, weights, 2, buffer, states, None, out, out, None, None, *rest, reserve, [True] * 4
        )[0]

    with Computing():
        found = both()
    leaf = x.clone().requires_grad_()
    out = torch.rnn_tanh(leaf, states, weights, False, 1, 0.0, True, False, False)[0]
    expected = torch.autograd.grad(out, leaf, out.detach())[0]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("_cslt_compress", lambda: (torch.ones(4, 4),),
         "aten._cslt_compress.default: it has a kernel on CUDA alone"),
        ("embedding", lambda: (torch.ones(2, 3), torch.tensor([5])),
         "aten.embedding.default: the CPU answers: index out of range in self"),
        ("floor_divide", lambda: (torch.tensor([1]), torch.tensor([0])),
         "aten.floor_divide.default: the CPU answers: ZeroDivisionError"),
    ],
)  # fmt: skip
def test_what_the_cpu_cannot_compute_is_named(run, name, arguments, message):
    with pytest.raises(CannotCompute) as refused:
        run(name, *arguments())
    assert str(refused.value) == message


def test_an_error_of_the_cpu_is_told_in_its_words(run):
    halves = torch.ones(2, 3).half(), torch.ones(2, 3).half()
    with pytest.raises(RuntimeError) as raised:
        torch.mm(*halves)
    with pytest.raises(CannotCompute) as refused:
        run("mm", *halves)
    assert str(refused.value) == f"aten.mm.default: the CPU answers: {raised.value}"


def test_an_error_of_the_host_keeps_no_frame_of_the_program_alive():
    """Else the tensors in the frame would live on until garbage is collected."""
    halves = torch.ones(2, dtype=torch.float16)

    class Local:
        pass

    def program():
        local = Local()
        with pytest.raises(RuntimeError):
            aten.clamp.default(halves, 1e9)
        assert compute(aten.clamp.default, (halves, 1e9), {}).tolist() == [math.inf] * 2
        return weakref.ref(local)

    program()  # PyTorch may import its compiler at first, which keeps frames
    gc.disable()
    try:
        assert program()() is None
    finally:
        gc.enable()
