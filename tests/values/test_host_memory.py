"""The host's memory for the values of one operator."""

from types import SimpleNamespace

import pytest
import torch

from pytest_attnmem.errors import UnknownValue
from pytest_attnmem.values import host_memory
from pytest_attnmem.values.host_memory import require_memory

MiB = 1 << 20
EXP = torch.ops.aten.exp.default
ATTEND = torch.ops.aten._scaled_dot_product_efficient_attention.default


def reference(*shape, dtype=torch.float32):
    return SimpleNamespace(shape=shape, layout=SimpleNamespace(dtype=dtype))


X, HALF = reference(MiB, 64), reference(MiB, 64, dtype=torch.bfloat16)
Q = reference(1, 8, 2048, 64)
TEXT = "it takes {} of the host's memory, of which {} are free"
#: Attention takes whole matrices of scores.
TAKEN = 5 * 4 * 8 * 2048**2 + 4 * 8 * 2048 * 64


@pytest.mark.parametrize(
    ("free", "func", "args", "output", "refusal"),
    [
        (512 * MiB, EXP, (X,), X, ""),  # half of the free memory
        (512 * MiB - 1, EXP, (X,), X, TEXT.format("256.0 MiB", "512.0 MiB")),
        (MiB, EXP, (HALF,), HALF, TEXT.format("640.0 MiB", "1.0 MiB")),  # computed in wider tensors
        (2 * TAKEN, ATTEND, (Q, Q, Q, None, False), Q, ""),
        (2 * TAKEN - 1, ATTEND, (Q, Q, Q, None, False), Q, TEXT.format("644.0 MiB", "1.3 GiB")),
        (0, EXP, (reference(1024),), reference(1024), ""),  # small: it is not looked at
        (None, EXP, (reference(MiB, MiB),), reference(MiB, MiB), ""),  # the system tells nothing
    ],
    ids=["half", "more", "wider", "scores", "more scores", "small", "unknown"],
)
def test_an_operator_may_take_half_of_the_free_memory(
    monkeypatch, free, func, args, output, refusal
):
    monkeypatch.setattr(host_memory, "free_memory", lambda: free)
    if not refusal:
        require_memory(func, args, {}, [output])
        return
    with pytest.raises(UnknownValue) as error:
        require_memory(func, args, {}, [output])
    assert str(error.value) == refusal
