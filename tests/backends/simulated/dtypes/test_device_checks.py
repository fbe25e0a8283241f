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
}


@pytest.mark.parametrize("text", REFUSED)
def test_the_error_is_that_of_cuda(run, text):
    def refused():
        with pytest.raises(RuntimeError) as raised:
            REFUSED[text]()
        assert str(raised.value) == text

    assert run(refused).unmeasured.endswith(f" fails on CUDA: {text}")


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
