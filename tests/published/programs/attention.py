"""Naive attention, as the assignment 2 of Stanford's CS336 asks for it, measured in several ways.

The published programs differ in where they read the counters and in what is alive then; each
function here has the order of one of them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, cuda

Numbers = dict[str, int]


def softmax(scores: Tensor) -> Tensor:
    scores = scores - scores.max(dim=-1, keepdim=True)[0]
    powers = torch.exp(scores)
    return powers / powers.sum(dim=-1, keepdim=True)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns attention over one head; shapes ``[B, N, d]``."""
    scores = torch.einsum("bqd,bkd->bqk", q, k) / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    return torch.einsum("bqk,bkd->bqd", softmax(scores), v)


def qkv(n: int, d: int, *, grad: bool = True, batch: int = 8) -> list[Tensor]:
    return [torch.randn(batch, n, d, device="cuda", requires_grad=grad) for _ in range(3)]


def forget(tensors: list[Tensor]) -> None:
    for tensor in tensors:
        tensor.grad = None


def levels(d: int, n: int) -> Numbers:
    """Peaks of forward and of backward, and the levels between them."""
    cuda.empty_cache()
    inputs = qkv(n, d)
    for _ in range(3):  # the output and the loss of the last one stay alive
        output = attention(*inputs)
        loss = output.sum()
        loss.backward()
        forget(inputs)
    cuda.reset_peak_memory_stats()
    for _ in range(2):
        attention(*inputs).sum()
    found = {"forward_peak": cuda.max_memory_allocated(), "after_inputs": cuda.memory_allocated()}
    output = attention(*inputs)
    loss = output.sum()
    found["before_backward"] = cuda.memory_allocated()
    found["saved"] = found["before_backward"] - found["after_inputs"]
    cuda.reset_peak_memory_stats()

    def step() -> None:  # its output and loss die; those before it stay
        output = attention(*inputs)
        loss = output.sum()
        loss.backward()
        forget(inputs)

    for _ in range(3):
        step()
    found["backward_peak"] = cuda.max_memory_allocated()
    return found


def added(d: int, n: int) -> Numbers:
    """Peak of a forward pass, and what it leaves."""
    inputs = qkv(n, d, grad=False)
    with torch.no_grad():
        for _ in range(3):
            attention(*inputs)
    del inputs
    inputs = qkv(n, d)
    for _ in range(3):
        output = attention(*inputs).sum()
        output.backward()
    for _ in range(3):
        for tensor in inputs:
            assert tensor.grad is not None
            tensor.grad.zero_()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        output = attention(*inputs)
        output = output.sum()
        found = {"peak": cuda.max_memory_allocated(), "added": cuda.memory_allocated() - before}
        output.backward()
    return found


def after_forward(
    d: int, n: int, *, masked: bool = False, forgets: bool = False, compiled: bool = False
) -> Numbers:
    """What is allocated after forward passes."""
    attend = torch.compile(attention) if compiled else attention
    inputs = qkv(n, d)
    mask = torch.tril(torch.ones(n, n, device="cuda")).bool() if masked else None
    for _ in range(3):
        if forgets:
            forget(inputs)
        output = attend(*inputs, mask)
        loss = output.sum()
        loss.backward()
    for _ in range(3):
        output = attend(*inputs, mask)
    found = {"after_forward": cuda.memory_allocated()}
    loss = output.sum()
    loss.backward()
    found["after_backward"] = cuda.memory_allocated()
    return found


def without_gradients(d: int, n: int, *, compiled: bool = False) -> Numbers:
    """What is allocated after forward passes, the gradients of others dropped."""
    attend = torch.compile(attention) if compiled else attention
    inputs = qkv(n, d)
    for _ in range(3):
        output = attend(*inputs)
        loss = output.sum()
        loss.backward()
        forget(inputs)
    for _ in range(2):
        output = attend(*inputs)
    found = {"after_forward": cuda.memory_allocated()}
    for _ in range(2):
        output = attend(*inputs)
        loss = output.sum()
        loss.backward()
        forget(inputs)
    return found


def graph_and_without(d: int, n: int) -> Numbers:
    """What is allocated after a masked forward pass without a graph, and after one with it."""
    cuda.empty_cache()
    inputs = qkv(n, d)
    mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device="cuda"))
    for _ in range(2):
        with torch.no_grad():
            attention(*inputs, mask)
    for _ in range(2):
        forget(inputs)
        output = attention(*inputs, mask)
        loss = output.sum()
        loss.backward()
    del output, loss
    for _ in range(2):
        with torch.no_grad():
            output = attention(*inputs, mask)
        without = cuda.memory_allocated()
        del output
        cuda.empty_cache()
        output = attention(*inputs, mask)
        with_graph = cuda.memory_allocated()
        del output
        cuda.empty_cache()
    return {"without": without, "with_graph": with_graph, "saved": with_graph - without}


def before_backward(d: int, n: int) -> Numbers:
    """What is allocated after masked forward passes, and the peak of later steps."""
    cuda.empty_cache()
    inputs = qkv(n, d)
    places = torch.arange(n, device="cuda")
    mask = places.unsqueeze(0) >= places.unsqueeze(1)
    for _ in range(3):
        output = attention(*inputs, mask)
        loss = output.sum()
        loss.backward()
        forget(inputs)
    for _ in range(2):
        output = attention(*inputs, mask)
    cuda.reset_peak_memory_stats()
    found = {"before_backward": cuda.memory_allocated()}
    for _ in range(2):
        output = attention(*inputs, mask)
        loss = output.sum()
        loss.backward()
        forget(inputs)
    return {**found, "peak": cuda.max_memory_allocated()}


def first_forward(d: int, n: int) -> Numbers:
    """What is allocated after the loss of a forward pass; each pass has new inputs."""
    for _ in range(3):
        inputs = qkv(n, d)
        loss = attention(*inputs).sum()
        allocated = cuda.memory_allocated()
        loss.backward()
        forget(inputs)
        del inputs, loss
        cuda.empty_cache()
    return {"before_backward": allocated}


def brief(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Returns attention whose shifted scores have no name, and die before the weights are there."""
    scores = torch.einsum("bqd,bkd->bqk", q, k) / math.sqrt(k.shape[-1])
    powers = torch.exp(scores - scores.max(dim=-1, keepdim=True)[0])
    return torch.einsum("bqk,bkd->bqd", powers / powers.sum(dim=-1, keepdim=True), v)


def peaks(d: int, n: int) -> Numbers:
    """Levels and peaks of forward and backward, the cache emptied before each."""
    inputs = qkv(n, d)
    output = loss = None
    for _ in range(4):
        del output, loss
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        found = {"start": cuda.max_memory_allocated()}
        cuda.reset_peak_memory_stats()
        output = brief(*inputs)
        found["forward_peak"] = cuda.max_memory_allocated()
        cuda.reset_peak_memory_stats()
        loss = output.mean()
        loss.backward()
        found["backward_peak"] = cuda.max_memory_allocated()
    return found
