"""Calls of operators, and their allocations and frees, as text.

A tensor is ``float32[2, 3]``, with strides ``float32[2, 3](1, 2)``, with an offset
``float32[2, 3](1, 2)@4``. A trace has the allocations and frees in order: ``out0:24`` is the
storage of the first output, ``t1:512`` scratch, ``-t1`` its free, and ``kept1:512`` scratch that is
alive when the operator has ended.
"""

import math
import re

import torch

TENSOR = re.compile(r"(\w+)\[([\d, ]*)\](?:\(([\d, ]*)\))?(?:@(\d+))?")


def numbers(text):
    return tuple(int(part) for part in text.split(",") if part.strip())


def built(value, make):
    """Returns the described argument, made by ``make(dtype, shape, strides, offset)``."""
    if isinstance(value, list):
        return [built(each, make) for each in value]
    if not isinstance(value, str):
        return value
    if value.startswith("torch."):
        return getattr(torch, value.removeprefix("torch."))
    found = TENSOR.fullmatch(value)
    if found is None:
        return value
    dtype, shape, strides, offset = found.groups()
    shape = numbers(shape)
    strides = contiguous(shape) if strides is None else numbers(strides)
    return make(getattr(torch, dtype), shape, strides, int(offset or 0))


def contiguous(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def maker(device):
    def make(dtype, shape, strides, offset):
        if not offset:
            return torch.empty_strided(shape, strides, dtype=dtype, device=device)
        extent = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        extent = offset if 0 in shape else extent
        whole = torch.empty(extent, dtype=dtype, device=device)
        return torch.as_strided(whole, shape, strides, offset)

    return make


def arguments(row, device):
    make = maker(device)
    kwargs = {name: built(value, make) for name, value in row.get("kwargs", {}).items()}
    if "device" in kwargs:
        kwargs["device"] = device
    return [built(value, make) for value in row["args"]], kwargs


def filled_arguments(row, device):
    """Returns the arguments of a call, with data, on the device.

    With ``"period": 3``, tensors of int32 and int64 count 0, 1, 2, 0, ..., and each third element
    of others is 1, the rest 0.
    """

    def make(dtype, shape, strides, offset):
        assert not offset
        extent = (
            0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        )
        whole = torch.zeros(extent, dtype=dtype)
        places = torch.arange(math.prod(shape)) % row["period"]
        data = places if dtype in (torch.int32, torch.int64) else places == 0
        torch.as_strided(whole, shape, strides).copy_(data.view(shape))
        return torch.as_strided(whole.to(device), shape, strides)

    kwargs = {name: built(value, make) for name, value in row.get("kwargs", {}).items()}
    return [built(value, make) for value in row["args"]], kwargs


def operator(name):
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def text(row):
    words = [repr(arg) for arg in row["args"]]
    words += [f"{name}={value!r}" for name, value in row.get("kwargs", {}).items()]
    mode = " deterministic" * row.get("deterministic", False) + " cold" * row.get("cold", False)
    return f"{row['op']}({', '.join(words)})".replace("'", "") + mode


def new_storages(arguments, returned):
    """Returns the outputs with a new storage, in order, one for each storage."""
    seen, found = {id_of(t) for t in flat(arguments)}, []
    for tensor in flat(returned):
        if id_of(tensor) not in seen:
            seen.add(id_of(tensor))
            found.append(tensor)
    return tuple(found)


def id_of(tensor):
    return tensor.untyped_storage()._cdata


def flat(values):
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from flat(value)
    elif isinstance(values, dict):
        yield from flat(list(values.values()))
