"""FlexAttention without torch.compile makes all scores.

Source: PyTorch (BSD-3), ``torch.nn.attention.flex_attention``. pytorch#182611 reports it, and in
attention-gym#165 a maintainer says that the eager form needs O(N²) memory. Code that forgets
``torch.compile``, or compiles with a backend that does not fuse, takes it. The memory of
the compiled form is the model of the bundled kernel ``flex``, which tests measure.
"""

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

from pytest_attnmem import BudgetExceeded
from pytest_attnmem.kernels import flex

#: PyTorch warns that it is not compiled, and of functions that it will remove.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _compile_anew():
    """Dynamo keeps what it compiled while a failure was explained, under a dispatch mode."""
    torch._dynamo.reset()


@pytest.mark.xfail(strict=True, raises=BudgetExceeded, reason="it is not compiled")
@pytest.mark.memory_budget(flex.MODEL.forward, backend="cpu", warmup=1)
def test_over_the_model(qkv):
    flex_attention(*qkv(B=1, H=4, N=512, d=64))


def test_106_times_the_memory(attnmem, qkv):
    q, k, v = qkv(B=1, H=8, N=2048, d=64)
    with attnmem.region("uncompiled", backend="cpu") as region:
        flex_attention(q, k, v)
    compiled = flex.MODEL.forward.peak(attnmem.shape())
    assert region.measurement.peak_bytes // compiled == 106
