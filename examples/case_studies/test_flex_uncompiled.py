"""FlexAttention without torch.compile makes all scores.

Source: PyTorch (BSD-3), ``torch.nn.attention.flex_attention``. pytorch#182611 reports it, and in
attention-gym#165 a maintainer says that the eager form needs O(N²) memory. Code that forgets
``torch.compile``, or compiles with a backend that does not fuse, takes it. Compiled, it needs its
output and room for tiles.
"""

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

from pytest_attnmem import BudgetExceeded

#: PyTorch warns that it is not compiled, and of functions that it will remove.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _compile_anew():
    """Dynamo keeps what it compiled while a failure was explained, under a dispatch mode."""
    torch._dynamo.reset()


@pytest.mark.xfail(strict=True, raises=BudgetExceeded, reason="it is not compiled")
@pytest.mark.memory_budget("4*B*H*N*d*itemsize", backend="cpu", warmup=1)
def test_over_four_outputs(qkv):
    flex_attention(*qkv(B=1, H=4, N=512, d=64))


def test_106_times_the_output(attnmem, qkv):
    q, k, v = qkv(B=1, H=8, N=2048, d=64)
    with attnmem.region("uncompiled", backend="cpu") as region:
        out = flex_attention(q, k, v)
    assert region.measurement.peak_bytes // out.nbytes == 106
