"""Programs whose scratch depends on the device: attention, products, reductions, sorts, norms.

``tests/null/record_devices.py`` records their peaks on null devices, in ``devices.json``.
"""

import torch
import torch.nn.functional as F

#: One device of each kind that another recording lacks.
DEVICES = (
    *("A30", "L40S", "RTX 4090", "H100-PCIe", "H200", "H20", "B300", "RTX 5090", "RTX PRO 6000"),
    *("A100-40GB MIG 1g.5gb", "H200 MIG 1g.18gb"),
)


def _made(*shape, dtype=torch.float32, grad=False):
    return torch.ones(shape, device="cuda", dtype=dtype, requires_grad=grad)


def _attention(dtype, d=64, masked=False):
    q, k, v = (_made(2, 4, 512, d, dtype=dtype, grad=True) for _ in "qkv")
    mask = _made(512, 512, dtype=dtype) if masked else None
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    out.backward(torch.empty_like(out))


def _decode():
    query, cache = _made(1, 2, 8, 64, dtype=torch.float16), (1, 2, 4096, 64)
    F.scaled_dot_product_attention(query, *(_made(*cache, dtype=torch.float16) for _ in "kv"))


def _linear():
    weight, bias = _made(128, 256, grad=True), _made(128, grad=True)
    F.linear(_made(64, 256, grad=True), weight, bias).sum().backward()


def _layer_norm():
    weight, bias = _made(1024, grad=True), _made(1024, grad=True)
    F.layer_norm(_made(512, 1024, grad=True), (1024,), weight, bias).sum().backward()


def _embedding(columns):
    places = torch.zeros(4096, dtype=torch.long, device="cuda")
    F.embedding(places, _made(1000, columns, grad=True)).sum().backward()


PROGRAMS = {
    "attention half": lambda: _attention(torch.float16),
    "attention half d=200": lambda: _attention(torch.float16, 200),
    "attention half mask": lambda: _attention(torch.float16, masked=True),
    "attention float": lambda: _attention(torch.float32),
    "attention decode": _decode,
    "linear": _linear,
    "mean": lambda: _made(3, 1 << 22).mean(1),
    "norm": lambda: _made(1 << 21).norm(),
    "layer norm": _layer_norm,
    "sort": lambda: _made(1 << 20).sort(),
    "sort half": lambda: _made(1 << 20, dtype=torch.float16).sort(),
    "topk": lambda: _made(1 << 20).topk(100),
    "cumsum": lambda: _made(1 << 20).cumsum(0),
    "unique int32": lambda: torch.unique(_made(1 << 16, dtype=torch.int32)),
    "unique counts": lambda: torch.unique(_made(1 << 16, dtype=torch.long), return_counts=True),
    "nonzero": lambda: _made(1 << 18).nonzero(),
    "embedding": lambda: _embedding(64),
    "embedding wide": lambda: _embedding(1024),
}
