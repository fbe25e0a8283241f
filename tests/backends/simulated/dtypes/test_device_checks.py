"""Checks of dtypes that CUDA's operators alone make end in their texts."""

import pytest
import torch

_aten = torch.ops.aten


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(*shape, dtype=dtype, device="cuda")


def flash(x):
    return _aten._flash_attention_forward(x, x, x, None, None, 4, 4, 0.0, False, False)


def efficient(x):
    return _aten._efficient_attention_forward(x, x, x, None, None, None, None, None, 0.0, 0)


REFUSED = {
    "FlashAttention only support fp16 and bf16 data type": lambda: flash(zeros(1, 4, 2, 8)),
    "Only fp32, half & bf16 supported at the moment": lambda: efficient(
        zeros(1, 4, 2, 8, dtype=torch.float64)
    ),
    "expected input and grad types to match, or input to be at::Half and grad to be at::Float": (
        lambda: _aten._softmax_backward_data(zeros(4), zeros(4), 0, torch.float64)
    ),
    "expected probabilities tensor to have floating type, got Long": (
        lambda: zeros(4, dtype=torch.int64).bernoulli()
    ),
    "HalfTensor is not supported": lambda: torch.histc(zeros(4, dtype=torch.float16)),
    "\"cuda_scatter_gather_base_kernel_func\" not implemented for 'Bool'": lambda: scattered(
        "prod"
    ),
    "\"embedding_bag_backward_cuda_max\" not implemented for 'BFloat16'": (
        lambda: largest_of_bags().backward()
    ),
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or"
    " `logical_xor()` operator instead.": lambda: torch._foreach_sub(booleans(), booleans()),
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to"
    " invert a mask, use the `~` or `logical_not()` operator instead.": (
        lambda: torch._foreach_sub([zeros(4)], True)
    ),
    "linalg.vector_norm: Expected a floating point or complex tensor as input. Got Long": (
        lambda: torch._foreach_norm([zeros(4), zeros(4, dtype=torch.int64)])
    ),
    "_foreach_tensor_norm_cuda: the dtype of the input (Double) should be convertible without"
    " narrowing to the specified dtype (Float)": (
        lambda: torch._foreach_norm([zeros(4, dtype=torch.float64)], 2, dtype=torch.float32)
    ),
    "linalg.vector_norm cannot compute the -1 norm on an empty tensor because the operation does"
    " not have an identity": lambda: torch._foreach_norm([zeros(0)], -1),
}


def scattered(reduce):
    x = zeros(4, dtype=torch.bool)
    return x.scatter_reduce(0, zeros(4, dtype=torch.int64), x, reduce)


def largest_of_bags():
    table = zeros(10, 6, dtype=torch.bfloat16).requires_grad_()
    places = zeros(8, dtype=torch.int64)
    return torch.nn.functional.embedding_bag(places, table, places[:1], mode="max").sum()


def booleans():
    return [zeros(4, dtype=torch.bool)]


@pytest.mark.parametrize("text", REFUSED)
def test_the_error_is_that_of_cuda(run, text):
    def refused():
        with pytest.raises(RuntimeError) as raised:
            REFUSED[text]()
        assert str(raised.value) == text

    assert run(refused).unmeasured.endswith(f" fails on CUDA: {text}")


def test_a_sum_of_booleans_by_places_runs(run):
    assert run(lambda: scattered("sum")).unmeasured is None


def test_a_group_norm_of_integers_without_elements_runs(run):
    """It launches no kernel."""
    made = []

    def empty():
        made.extend(_aten.native_group_norm(zeros(0, 6, 3).long(), None, None, 0, 6, 3, 2, 1e-5))

    run(empty)
    assert [(*one.shape,) for one in made] == [(0, 6, 3), (0, 2), (0, 2)]


def test_the_dtypes_that_cuda_takes_run(run):
    def taken():
        flash(zeros(1, 4, 2, 8, dtype=torch.float16))
        efficient(zeros(1, 4, 2, 8))
        zeros(4).bernoulli()
        zeros(4, dtype=torch.int64).bernoulli(0.5)
        zeros(0, dtype=torch.int64).bernoulli()
        _aten._softmax_backward_data(zeros(4), zeros(4), 0, torch.float16)

    assert run(taken).unmeasured is None
