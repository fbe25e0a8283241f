"""Operators refuse the tensors of the host that CUDA refuses, with PyTorch's own error."""

import json
import re

import pytest
import torch

from pytest_attnmem.backends.simulated.host_tensors.refusals import FILE, Hosts
from pytest_attnmem.errors import CannotSimulate, MixedDevices
from pytest_attnmem.torch_releases import KNOWN

ELEMENTS = (
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
)
WRAPPER = (
    "Expected all tensors to be on the same device, but got {} is on {}, different from other"
    " tensors on {} (when checking argument in method wrapper_CUDA_{})"
)
HOST, CUDA = "cpu", "cuda:0"


def one(*shape, dtype=torch.float32):
    return torch.ones(*shape, device="cuda", dtype=dtype)


def number(value=2.0):
    return torch.tensor(value)


def power():
    torch.pow(number(), one(4, 4).requires_grad_()).sum().backward()


REFUSED = {
    "clamp": (
        lambda: one(4).clamp(number(1.0), number()),
        WRAPPER.format("min", HOST, CUDA, "clamp_Tensor"),
    ),
    "product": (
        lambda: torch.addmm(number(), one(4, 4), one(4, 4)),
        WRAPPER.format("mat1", CUDA, HOST, "addmm"),
    ),
    "integers": (
        lambda: torch.gcd(one(4, dtype=torch.int64), number(2)),
        WRAPPER.format("other", HOST, CUDA, "gcd"),
    ),
    "list": (
        lambda: torch.cat([one(4), torch.ones(4)]),
        WRAPPER.format("tensors", HOST, CUDA, "cat"),
    ),
    "output": (
        lambda: torch.addmm(one(4, 4), one(4, 4), one(4, 4), out=torch.empty(4, 4)),
        WRAPPER.format("self", CUDA, HOST, "addmm_out_out"),
    ),
    "quotient": (lambda: torch.addcdiv(one(4), one(4), number()), ELEMENTS),
    "in place": (lambda: number().add_(torch.ones((), device="cuda")), ELEMENTS),
    "backward": (power, ELEMENTS),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_error_is_that_of_cuda_and_a_program_that_catches_it_is_measured(run, case):
    program, text = REFUSED[case]
    raised = []

    def caught():
        try:
            program()
        except RuntimeError as error:
            raised.append(error)

    assert run(caught).unmeasured is None
    (error,) = raised
    assert isinstance(error, MixedDevices)
    assert str(error).startswith(f"{text} (aten.")


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (lambda: torch.lerp(one(4), number(), 0.5), "expected a CUDA device but found cpu"),
        (lambda: torch._foreach_add([one(4), one(4)], [one(4), torch.ones(4)]), ELEMENTS),
    ],
    ids=["kernel", "lists"],
)
def test_a_call_that_allocates_before_it_fails_is_not_enforced(run, program, text):
    def caught():
        with pytest.raises(MixedDevices, match=re.escape(text)):
            program()

    assert text in run(caught).unmeasured


def test_tensors_without_a_device_are_of_the_host_once_one_that_is_meets_them(run):
    measured = run(
        lambda: torch.addcdiv(torch.ones(4), torch.ones(4), torch.ones((), device="cpu"))
    )
    assert (measured.unmeasured, measured.peak_bytes) == (None, 0)


@pytest.mark.parametrize(
    "program",
    [
        lambda: one(256) + number(),
        lambda: torch.addcmul(one(256), one(256), number()),
        lambda: torch.where(one(256) > 0, one(256), number()),
        lambda: torch.clamp(torch.ones(4), number(1.0), number()),
        lambda: torch._foreach_mul([one(4), one(4)], number()),
        lambda: one(4).clamp(1.0, 2.0),
        lambda: one(4, 4)[torch.tensor([0, 1])],
    ],
)
def test_what_runs_on_cuda_is_measured(run, program):
    assert run(lambda: (one(4), program())).unmeasured is None


def test_every_version_has_its_rows_and_every_row_names_operators_of_torch():
    known = {f"{major}.{minor}" for major, minor in KNOWN}
    kept = json.loads(FILE.read_text("utf-8"))
    assert {version for row in kept["rows"] for version in row[0].split()} == known
    installed = "{}.{}".format(*map(int, torch.__version__.split(".")[:2]))
    for versions, _, _, ops in kept["rows"]:
        for op in ops.split() if installed in versions.split() else ():
            packet, _, overload = op.partition(".")
            func = getattr(getattr(torch.ops.aten, packet), overload or "default")
            assert Hosts().of(func) is not None
    assert len(kept["rows"]) < 600


def test_another_version_refuses_as_the_newest_and_an_operator_of_one_tensor_nothing():
    assert Hosts("9.9.0").of(torch.ops.aten.addmm.default) is not None
    assert Hosts().of(torch.ops.aten.view.default) is None


@pytest.mark.parametrize(
    ("program", "op"),
    [
        (lambda: torch._foreach_abs([one(4), torch.ones(4)]), "_foreach_abs.default"),
        (
            lambda: torch._fused_sgd_(
                *([one(4)], [one(4)], []),
                **{"weight_decay": 0.0, "momentum": 0.0, "lr": 0.1, "dampening": 0.0},
                **{"nesterov": False, "maximize": False, "is_first_step": False},
                found_inf=torch.zeros(1),
            ),
            "_fused_sgd_.default",
        ),
        (lambda: torch.slice_scatter(one(4), torch.ones(4)), "slice_scatter.default"),
        (lambda: torch.ops.aten.fill.Tensor(number(), one(1)[0]), "fill.Tensor"),
    ],
)
def test_a_call_with_memory_that_nobody_knows_is_not_enforced(run, program, op):
    def refused():
        with pytest.raises(CannotSimulate) as raised:
            program()
        assert not isinstance(raised.value, MixedDevices)

    said = run(refused).unmeasured
    assert said.startswith(f"aten.{op} at test_refusals.py:")
    assert said.endswith(
        " takes a tensor of the CPU beside tensors of the device, and what it then allocates is"
        " not known; move it to the device"
    )


def test_an_index_of_the_host_beside_a_slice_is_read(run):
    """C++ code gives ``index_put`` None for a slice, which no method of a tensor takes."""

    def put():
        torch.ops.aten.index_put.default(one(4, 4), [None, torch.tensor([0, 1])], one(1))

    assert run(put).unmeasured is None
