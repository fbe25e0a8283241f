"""Compiled flex_attention on the CPU reads what nobody wrote; the kernel refuses those sizes.

PyTorch's template multiplies sixteen keys at a time. Where vectors hold eight floats (AVX2), the
width is 8 or 16 and eight keys are left over, it reads sixteen all the same: eight rows beyond the
keys. Where one tile holds all keys, it writes the eight products over the rows' maxima and sums.
"""

import re

import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask

from pytest_attnmem.kernels import flex


class Compiled(Exception):
    """The kernel went on to call the compiler."""


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    def compiled(*_, **__):
        raise Compiled

    monkeypatch.setattr(torch, "compile", compiled)


def attend(M, d, dtype, block_mask=None, device="cpu"):
    q, k, v = (
        torch.ones(1, 2, L, w, dtype=dtype, device=device) for L, w in ((9, d), (M, d), (M, 4))
    )
    return flex.attention(q, k, v, block_mask=block_mask)


@pytest.mark.parametrize("dtype", flex.DTYPES, ids=str)
@pytest.mark.parametrize(("M", "d"), [(40, 8), (8, 16), (120, 16), (168, 8), (1000, 16)])
def test_sizes_that_read_beyond_the_keys_are_refused(M, d, dtype):
    message = (
        f"flex on cpu cannot take d={d} with M={M}: where d is 8 or 16 and a block of keys is 8"
        " longer than a multiple of 16, PyTorch's compiled flex_attention reads rows beyond the"
        " keys, and returns NaN or wrong rows; pad q and k with zeros to d=24 and pass scale"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        attend(M, d, dtype)


@pytest.mark.parametrize(("M", "d"), [(40, 24), (40, 12), (40, 4), (32, 8), (44, 8), (33, 16)])
def test_other_sizes_are_compiled(M, d):
    with pytest.raises(Compiled):
        attend(M, d, torch.float16)


def test_other_devices_are_compiled():
    with pytest.raises(Compiled):
        attend(40, 8, torch.float16, device="meta")


@pytest.mark.parametrize(("block", "refused"), [(40, True), (16, False)])
def test_the_tiles_are_those_of_the_block_mask(block, refused):
    blocks = 80 // block
    numbers = torch.full((1, 1, 1), blocks, dtype=torch.int32)
    every = torch.arange(blocks, dtype=torch.int32)[None, None, None]
    mask = BlockMask.from_kv_blocks(
        numbers, every, BLOCK_SIZE=(128, block), seq_lengths=(9, 80), compute_q_blocks=False
    )
    with pytest.raises(ValueError if refused else Compiled):
        attend(80, 8, torch.float32, mask)
