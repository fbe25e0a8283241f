"""The kernels' models against what the device's allocator did, scratch included."""

import pytest
import torch

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.symbols.attention_shape import Source, gather

#: Fused kernels have scratch on CUDA that their models do not claim to know.
EXACT = [
    (kernel, causal)
    for kernel in KERNELS
    for causal in kernel.causal
    if kernel.name not in ("sdpa-flash", "sdpa-efficient")
]


def run(attention, tensors, causal, training):
    for tensor in tensors:
        tensor.grad = None
    if training:
        attention(*tensors, causal=causal).sum().backward()
        return None
    with torch.no_grad():
        return attention(*tensors, causal=causal)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("sizes", [(2, 4, 256, 256, 64, 64), (1, 2, 300, 200, 32, 16)], ids=str)
@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize(("kernel", "causal"), EXACT, ids=lambda value: getattr(value, "name", ""))
def test_the_model_is_the_measured_peak(cuda, kernel, causal, training, sizes, dtype):
    if kernel.name == "flash-triton" and dtype is torch.float64:
        pytest.skip("flash-triton has no kernel for float64, and says so")
    B, H, N, M, d, dv = sizes
    tensors = [
        torch.randn(B, H, *shape, device=cuda.device, dtype=dtype, requires_grad=training)
        for shape in ((N, d), (M, d), (M, dv))
    ]
    run(kernel.attention, tensors, causal, training)
    for tensor in tensors:
        tensor.grad = None
    with window(cuda) as seen:
        out = run(kernel.attention, tensors, causal, training)
    del out
    known = {"B": B, "H": H, "N": N, "M": M, "d": d, "dv": dv, "dtype": dtype, "causal": causal}
    model = kernel.model.training if training else kernel.model.forward
    shape = gather([Source("the test", known)])
    assert seen.measurement.peak_bytes == model.peak(shape, cuda.kinds)
