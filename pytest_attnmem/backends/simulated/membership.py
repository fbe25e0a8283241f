"""``torch.isin`` as Python code with the calls of aten/src/ATen/native/TensorCompare.cpp."""

from __future__ import annotations

from typing import Any

import torch

_aten = torch.ops.aten


def is_in(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Returns which elements are among others: each is compared, or all are sorted if many are."""
    out = torch.empty(elements.shape, dtype=torch.bool, device=elements.device)
    if not elements.numel():
        return out
    if test_elements.numel() >= int(10.0 * elements.numel() ** 0.145):
        return _is_in_sorted(out, elements, test_elements, assume_unique, invert)
    out.fill_(invert)
    row = test_elements.view([1] * elements.dim() + [test_elements.numel()])
    compared = elements.unsqueeze(-1).ne(row) if invert else elements.unsqueeze(-1).eq(row)
    found = compared.all(-1) if invert else compared.any(-1)
    return out.copy_(found)


def _is_in_sorted(out: Any, elements: Any, tests: Any, assume_unique: bool, invert: bool) -> Any:
    order = None
    if assume_unique:
        flat, other = elements.ravel(), tests.ravel()
    else:
        flat, order = _aten._unique(elements, False, True)
        other, unused = _aten._unique(tests, False)
        del unused
    every = torch.cat([flat, other])
    del flat, other
    in_order, places = every.sort(stable=True, dim=0)
    twice = torch.empty_like(in_order, dtype=torch.bool)
    behind, before = in_order[1:], in_order[:-1]
    twice[:-1].copy_(behind.ne(before) if invert else behind.eq(before))
    twice[-1:].fill_(invert)
    mask = torch.empty_like(twice)
    mask.index_copy_(0, places, twice)
    if order is not None:
        return out.copy_(_aten.index(mask, [order]))
    return out.copy_(mask[: elements.numel()].view_as(elements))
