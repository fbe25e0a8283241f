"""Calls that no device runs raise PyTorch's error, as its kernels word it."""

import pytest
import torch
import torch.nn.functional as F

INT = torch.int64


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype, device=torch.get_default_device())


CALLS = {
    "add": lambda: zeros(2, 3) + zeros(2, 4),
    "add in place": lambda: zeros(3).add_(zeros(2, 3)),
    "where": lambda: torch.where(zeros(3) > 0, zeros(4), zeros(3)),
    "masked_fill": lambda: zeros(3).masked_fill(zeros(4) > 0, 0.0),
    "foreach": lambda: torch._foreach_add([zeros(3)], [zeros(4)]),
    "index": lambda: zeros(3, 4)[zeros(2, dtype=INT), zeros(3, dtype=INT)],
    "mask": lambda: zeros(3, 4)[zeros(3, 5) > 0],
    "second mask": lambda: zeros(3, 4)[zeros(3) > 0, zeros(5) > 0],
    "write by a mask": lambda: zeros(3, 4).__setitem__((slice(None), zeros(3) > 0), zeros(())),
    "mm": lambda: zeros(2, 3) @ zeros(4, 5),
    "linear": lambda: F.linear(zeros(2, 2, 3), zeros(4, 5), zeros(4)),
    "mv": lambda: zeros(2, 3) @ zeros(4),
    "dot": lambda: zeros(2) @ zeros(4),
    "layer_norm": lambda: F.layer_norm(zeros(2, 3), (4,)),
    "layer_norm's weight": lambda: F.layer_norm(zeros(2, 3), (3,), zeros(4)),
    "convolution": lambda: F.conv2d(zeros(2, 3, 8, 8), zeros(4, 5, 3, 3)),
    "cat": lambda: torch.cat([zeros(2, 3), zeros(2, 4)]),
    "cat of ranks": lambda: torch.cat([zeros(2, 3), zeros(2, 3, 4)]),
    "mean": lambda: zeros(2, 3, dtype=INT).mean(),
    "argmax": lambda: zeros(2, 0).argmax(1),
    "topk": lambda: zeros(2, 3).topk(5),
    "gather": lambda: zeros(2, 3).gather(1, zeros(3, 3, dtype=INT)),
    "scatter": lambda: zeros(2, 3).scatter(1, zeros(2, 4, dtype=INT), zeros(2, 3)),
    "index_add": lambda: zeros(2, 3).index_add(0, zeros(2, dtype=INT), zeros(3, 3)),
    "index_copy": lambda: zeros(2, 3).index_copy(0, zeros(2, dtype=INT), zeros(3, 3)),
    "embedding": lambda: F.embedding(zeros(2, dtype=INT), zeros(3)),
    "nll_loss": lambda: F.nll_loss(zeros(2, 3), zeros(2, 2, dtype=INT)),
    "roll": lambda: zeros(2, 2).roll((1, 2), 0),
    "index of floats": lambda: zeros(3)[zeros(3)],
    "pooling": lambda: F.adaptive_avg_pool2d(zeros(2, 3), 4),
    "pixel_shuffle": lambda: F.pixel_shuffle(zeros(1, 3, 2, 2), 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_error_is_that_of_the_kernels(raises_as_on_cpu, name):
    raises_as_on_cpu(CALLS[name])


def test_a_call_of_large_tensors_takes_no_memory(run):
    def multiplied():
        with pytest.raises(RuntimeError, match=r"cannot be multiplied \(131072x131072 and 3x"):
            torch.empty(2**17, 2**17, device="cuda") @ torch.empty(3, 2**17, device="cuda")

    assert run(multiplied).peak_bytes == 2**36 + 3 * 2**19
