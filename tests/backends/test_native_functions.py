"""PyTorch's list of its operators, beside its dispatcher and its schemas."""

import torch

from pytest_attnmem.backends.native_functions import kernels_of_cuda, native_functions

FOUND = frozenset(kernels_of_cuda())


def operator(name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


OPERATORS = {
    operator(name): facts
    for name, facts in native_functions().items()
    if operator(name) is not None
}


def test_a_kernel_is_found_by_its_key():
    assert {"nonzero", "native_batch_norm", "_fused_rms_norm"} <= FOUND


def test_a_kernel_is_found_by_the_function_that_it_belongs_to():
    assert {"mm", "mm.out", "add.Tensor", "add_.Tensor"} <= FOUND  # structured; by a loop


def test_a_kernel_for_another_layout_is_not_one_of_cuda():
    assert FOUND.isdisjoint({"sparse_sampled_addmm", "clone", "linear", "silu_nothing"})


def test_the_views_are_those_of_the_schemas():
    assert len(OPERATORS) > 2000
    assert [op for op, facts in OPERATORS.items() if op.is_view != facts.view] == []


def test_the_composites_are_those_of_the_dispatcher():
    """The file has some that only nested tensors have kernels for, in other files."""
    wrong = {
        op.name()
        for op, facts in OPERATORS.items()
        if facts.composite != torch._C._dispatch_has_kernel_for_dispatch_key(
            op.name(), "CompositeImplicitAutograd"
        )
    }  # fmt: skip
    assert all("_nested_" in name for name in wrong), wrong


def test_a_function_that_the_cpu_and_cuda_share():
    facts = native_functions()
    assert facts["multinomial"].shared
    assert not facts["mm"].shared
    assert facts["add.Tensor"].on_cuda
