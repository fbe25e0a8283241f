"""PyTorch's list of its operators, beside what it is known to say."""

from pytest_attnmem.backends.native_functions import kernels_of_cuda

FOUND = frozenset(kernels_of_cuda())


def test_a_kernel_is_found_by_its_key():
    assert {"nonzero", "native_batch_norm", "_fused_rms_norm"} <= FOUND


def test_a_kernel_is_found_by_the_function_that_it_belongs_to():
    assert {"mm", "mm.out", "add.Tensor", "add_.Tensor"} <= FOUND  # structured; by a loop


def test_a_kernel_for_another_layout_is_not_one_of_cuda():
    assert FOUND.isdisjoint({"sparse_sampled_addmm", "clone", "linear", "silu_nothing"})
