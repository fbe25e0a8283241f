"""Flash attention's memory is linear in the sequence; tests of its outputs cannot check that."""

import pytest
import torch

from pytest_attnmem.kernels import flash, sdpa, standard


@pytest.mark.memory_budget("B*H*N*d*itemsize + B*H*N*4 + 8 MiB")
@pytest.mark.parametrize("seq_len", [1024, 2048, 4096])
def test_forward_is_linear(qkv, seq_len):
    with torch.no_grad():
        flash.attention(*qkv(B=1, H=8, N=seq_len, d=64), causal=True)


@pytest.mark.memory_budget(flash.MODEL.training, exact=True)
def test_training_needs_what_the_model_says(qkv):
    q, k, v = qkv(B=1, H=8, N=2048, d=64, requires_grad=True)
    flash.attention(q, k, v).sum().backward()


def test_it_saves_what_it_promises(attnmem, qkv):
    q, k, v = qkv(B=1, H=8, N=2048, d=64)
    with torch.no_grad():
        attnmem.compare(
            lambda: flash.attention(q, k, v),
            lambda: standard.attention(q, k, v),
            min_saving="90%",
        )


def test_nothing_is_kept_when_no_gradient_is_wanted(attnmem, qkv):
    q, k, v = qkv(B=1, H=8, N=1024, d=64, requires_grad=True)
    with torch.no_grad():
        m = attnmem.measure(flash.attention, q, k, v)
    attnmem.check(m, "B*H*N*d*itemsize", metric="retained", exact=True, name="output alone")


@pytest.mark.memory_budget("B*H*N*d*itemsize + 16 MiB", backend="cpu")
def test_pytorchs_own_kernel_needs_a_tile_for_each_thread(qkv):
    with torch.no_grad():
        sdpa.flash(*qkv(B=1, H=8, N=4096, d=64))
