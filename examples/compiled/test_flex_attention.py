"""``flex_attention`` runs dense unless it is compiled: pytorch#182611."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


@pytest.fixture
def arguments(qkv):
    N = 4096
    mask = create_block_mask(
        lambda b, h, q, k: q >= k, None, None, N, N, device="cuda", _compile=False
    )
    tensors = qkv(B=1, H=8, N=N, d=64, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    return *tensors, None, mask


@pytest.mark.memory_budget("16*B*H*N*d*itemsize", compiled="<=eager")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_compiled(arguments):
    torch.compile(flex_attention)(*arguments).sum().backward()


@pytest.mark.xfail(strict=True, reason="nobody compiled it")
@pytest.mark.memory_budget("16*B*H*N*d*itemsize")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_uncompiled(arguments):
    flex_attention(*arguments).sum().backward()
