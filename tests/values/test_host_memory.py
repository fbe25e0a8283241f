"""The host's memory for the values of one operator."""

from types import SimpleNamespace

import torch

from pytest_attnmem.errors import UnknownValue
from pytest_attnmem.values import host_memory
from pytest_attnmem.values.host_memory import require_memory

MiB = 1 << 20
EXP = torch.ops.aten.exp.default
ATTEND = torch.ops.aten._scaled_dot_product_efficient_attention.default


def reference(*shape, dtype=torch.float32):
    return SimpleNamespace(shape=shape, layout=SimpleNamespace(dtype=dtype))


def refused(free, monkeypatch, func, args, outputs):
    monkeypatch.setattr(host_memory, "free_memory", lambda: free)
    try:
        require_memory(func, args, {}, outputs)
    except UnknownValue as error:
        return str(error)
    return ""


def test_an_operator_may_take_half_of_the_free_memory(monkeypatch):
    x = reference(MiB, 64)
    assert not refused(512 * MiB, monkeypatch, EXP, (x,), [x])
    assert refused(512 * MiB - 1, monkeypatch, EXP, (x,), [x]) == (
        "it takes 256.0 MiB of the host's memory, of which 512.0 MiB are free"
    )


def test_the_cpu_computes_narrow_floats_in_wider_tensors(monkeypatch):
    x = reference(MiB, 64, dtype=torch.bfloat16)
    assert "takes 640.0 MiB" in refused(MiB, monkeypatch, EXP, (x,), [x])


def test_attention_takes_whole_matrices_of_scores(monkeypatch):
    q = reference(1, 8, 2048, 64)
    taken = 5 * 4 * 8 * 2048**2 + 4 * 8 * 2048 * 64
    assert refused(2 * taken - 1, monkeypatch, ATTEND, (q, q, q, None, False), [q])
    assert not refused(2 * taken, monkeypatch, ATTEND, (q, q, q, None, False), [q])


def test_a_small_operator_is_not_looked_at(monkeypatch):
    x = reference(1024)
    assert not refused(0, monkeypatch, EXP, (x,), [x])


def test_a_system_that_tells_nothing_has_no_limit(monkeypatch):
    x = reference(MiB, MiB)
    assert not refused(None, monkeypatch, EXP, (x,), [x])
