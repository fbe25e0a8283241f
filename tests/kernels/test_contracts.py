"""What kernels keep for backward, refuse and default to, and how they behave in autograd."""

from __future__ import annotations

import inspect

import pytest
import torch

from pytest_attnmem.kernels import KERNELS

from .programs import saved
from .references import BOTH, over

NAMED = {kernel.name: kernel for kernel in KERNELS}
SIZES = (2, 3, 33, 50, 8, 4)
ROWS = (2, 3, 33)
#: Kernel → options, and the shapes of what is saved besides q, k, v and, if any, the output.
SAVED = {
    "chunked": ({}, None),
    "sliding-window": ({}, None),
    "flash": ({}, [ROWS]),
    "strided": ({}, [(*ROWS, 1)]),
    "linear-chunked": ({"block": 8}, [ROWS]),
    "linear-recurrent": ({}, [ROWS]),
    # The states before rows 0, 8, 16, 24 and 32.
    "linear-scan": ({"block": 8}, [(*ROWS, 1), (5, 2 * 3, 8, 4 + 1)]),
}
#: Small blocks, so that a few rows are several.
SMALL = {
    "chunked": {"chunk_q": 4, "chunk_k": 4},
    "flash": {"block_q": 4, "block_k": 4},
    "sliding-window": {"window": 3, "block": 2},
    "strided": {},
    "linear-recurrent": {},
}
#: The kernels whose backward pass is their own.
FUSED = (
    *("block-sparse", "chunked", "flash", "sliding-window", "strided"),
    *("linear-chunked", "linear-recurrent", "linear-scan"),
)
#: Very wide or narrow keys and values, many queries and one key, one query.
EXTREMES = [(1, 1, 4, 4, 1, 64), (1, 1, 4, 4, 64, 1), (1, 1, 300, 1, 64, 1), (1, 1, 1, 1, 1, 500)]
#: Kernel and option, of all options that are numbers of rows or keys.
NUMBERS = [
    (kernel, option)
    for kernel in KERNELS
    for option, parameter in inspect.signature(kernel.attention).parameters.items()
    if str(parameter.annotation).startswith("int")
]


def of(names):
    return over([NAMED[name] for name in names])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@of(SAVED)
def test_what_is_saved(kernel, dtype, inputs):
    options, more = SAVED[kernel.name]
    q, k, v = inputs(SIZES, dtype, requires_grad=True)
    out, tensors = saved(lambda: kernel.attention(q, k, v, causal=True, **options))
    whole = [q, k, v] + [out] * (more is not None)
    assert [x.data_ptr() for x in tensors[: len(whole)]] == [x.data_ptr() for x in whole]
    rest = tensors[len(whole) :]
    assert [x.shape for x in rest] == (more or [])
    assert {x.dtype for x in rest} <= {torch.promote_types(dtype, torch.float32)}


@BOTH
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("sizes", EXTREMES, ids=str)
@of(SMALL)
def test_the_model_at_extreme_sizes(kernel, sizes, dtype, training, inputs, as_modelled):
    as_modelled(kernel, training, inputs(sizes, dtype), **SMALL[kernel.name])


@over(KERNELS)
def test_a_model_has_the_defaults_of_its_function(kernel):
    options = inspect.signature(kernel.attention).parameters
    for model in (kernel.model.forward, kernel.model.training):
        given = {name: n for name, n in model.defaults.items() if name in options}
        assert given == {name: options[name].default or 0 for name in given}
        assert {option for row, option in NUMBERS if row is kernel} <= {*given}


@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize(("kernel", "option"), NUMBERS, ids=lambda x: getattr(x, "name", x))
def test_a_number_of_rows_is_one_at_least(kernel, option, size, inputs):
    with pytest.raises(ValueError, match=f"^{option} must be at least 1, got {size}$"):
        kernel.attention(*inputs((1, 1, 3, 3, 2, 2)), causal=True, **{option: size})


@of(["chunked", "flash", "sliding-window", "strided"])
def test_a_mask_gets_no_gradient(kernel, inputs):
    mask = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    tensors = inputs((1, 1, 3, 3, 2, 2), requires_grad=True)
    message = f"^mask must not require a gradient in {kernel.name}, got one that does$"
    with pytest.raises(ValueError, match=message):
        kernel.attention(*tensors, mask=mask)
    with torch.no_grad():
        kernel.attention(*tensors, mask=mask)


@pytest.mark.parametrize("sizes", [(2, 2, 0, 5, 4, 3), (0, 2, 5, 5, 4, 3)], ids=str)
def test_no_queries(kernel, causal, sizes, inputs):
    q, k, v = inputs(sizes, requires_grad=True)
    out = kernel.attention(q, k, v, causal=causal)
    assert out.shape == (*q.shape[:3], v.shape[3])
    out.sum().backward()
    assert all(x.grad.shape == x.shape and x.grad.eq(0).all() for x in (q, k, v))


@pytest.mark.parametrize("wanted", ["q", "k", "v"])
def test_gradient_of_one_input(kernel, causal, wanted, inputs):
    tensors = dict(zip("qkv", inputs((1, 2, 5, 7, 4, 3)), strict=True))
    tensors[wanted].requires_grad_()
    kernel.attention(**tensors, causal=causal).sum().backward()
    assert [name for name, tensor in tensors.items() if tensor.grad is not None] == [wanted]


@of(FUSED)
def test_twice_differentiated_is_an_error(kernel, causal, inputs):
    tensors = inputs((1, 1, 3, 3, 2, 2), requires_grad=True)
    out = kernel.attention(*tensors, causal=causal)
    first = torch.autograd.grad(out.square().sum(), tensors, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        first[0].sum().backward()
