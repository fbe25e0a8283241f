"""The simulated backend measures a GPU's memory without a GPU, at the sizes of production."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from pytest_attnmem.kernels import standard


@pytest.mark.memory_budget("B*H*N*d*itemsize + B*H*N*4 + 24", backend="simulated:H100")
def test_flash_at_131072_tokens(qkv):
    q, k, v = qkv(B=1, H=16, N=131072, d=128, dtype=torch.bfloat16)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        scaled_dot_product_attention(q, k, v)


@pytest.mark.memory_budget(
    "B*H*N*d*itemsize + B*H*N*4 + 24", backend="simulated:A100-80GB", exact=True
)
@pytest.mark.parametrize("N", [4096, 65536])
def test_flash_is_the_default_without_a_mask(qkv, N):
    scaled_dot_product_attention(*qkv(B=1, H=16, N=N, d=64, dtype=torch.float16))


@pytest.mark.xfail(strict=True, reason="a mask costs SDPA its flash backend")
@pytest.mark.memory_budget("B*H*N*d*itemsize + B*H*N*4 + 24", backend="simulated:A100-80GB")
def test_a_mask_that_is_never_none(qkv):
    q, k, v = qkv(B=1, H=16, N=8192, d=64, dtype=torch.float16)
    mask = torch.ones(8192, 8192, dtype=torch.bool, device=q.device).tril()
    scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.xfail(strict=True, reason="out of memory on an A100 of 80 GB")
@pytest.mark.memory_budget("2*B*H*N*N*itemsize + B*H*N*d*itemsize", backend="simulated:A100-80GB")
def test_standard_attention_does_not_fit(qkv):
    standard.attention(*qkv(B=1, H=16, N=65536, d=64, dtype=torch.float16))
