"""Variants of a recorded call with other dtypes, numbers and settings."""

import torch

from pytest_attnmem.backends.simulated.dtypes.names import LETTERS

DTYPES = tuple(dtype for dtype, _ in LETTERS.values())
#: The dtypes that meet another one in a call of two dtypes.
MIXED = tuple(LETTERS[letter][0] for letter in "?BilHegfdF3")
NUMBERS = (2, 2.5, 2j, True)
MAY_BE_NUMBER = ("number", "Optional[number]", "Tensor", "Optional[Tensor]")


class Made:
    """A tensor of a recorded call: its layout, to make it again with any dtype."""

    def __init__(self, tensor):
        self.shape, self.stride = tuple(tensor.shape), tensor.stride()
        self.dtype, self.device = tensor.dtype, tensor.device.type

    def again(self, dtype=None):
        return torch.empty_strided(
            self.shape, self.stride, dtype=dtype or self.dtype, device=self.device
        )


def dtypes_in(value):
    """Returns the dtypes of a tensor, or of a list of tensors."""
    if isinstance(value, Made):
        return [value.dtype]
    return [dtype for item in value for dtype in dtypes_in(item)] if type(value) is list else []


def is_empty(value):
    if type(value) is list:
        return any(map(is_empty, value))
    return isinstance(value, Made) and 0 in value.shape


def made(value, dtype=None):
    """Returns a value with tensors of that dtype, or of their own."""
    if isinstance(value, Made):
        return value.again(dtype)
    return [made(item, dtype) for item in value] if type(value) is list else value


def variants(func, named, thorough):
    """Yields, for a call with arguments by name, the other dtypes and the other values by name.

    All tensors that had one dtype get another; if ``thorough``, two dtypes meet, numbers get other
    types, and flags are turned.
    """
    schema = {argument.name: argument for argument in func._schema.arguments}
    groups = {}
    for name, value in named.items():
        if found := dtypes_in(value):
            groups.setdefault(found[0], []).append(name)
    all_names = [name for names in groups.values() for name in names]
    together = [
        dict.fromkeys(names, dtype)
        for was, names in groups.items()
        for dtype in DTYPES
        if dtype != was
    ]
    yield {}, {}
    for dtypes in together:
        yield dtypes, {}
    if len(groups) > 1:
        for dtype in DTYPES:
            yield dict.fromkeys(all_names, dtype), {}
    if not thorough:
        return
    for names in groups.values():
        yield from mixed(names)
    for name, value in named.items():
        kind = str(schema[name].type)
        if type(value) in (int, float, complex, bool) and kind in MAY_BE_NUMBER:
            for number in NUMBERS:
                for dtypes in ({}, *together):
                    yield dtypes, {name: number}
        elif type(value) is bool:
            for dtypes in ({}, *together):
                yield dtypes, {name: not value}
    if "dtype" in schema:
        for dtype in DTYPES:
            for dtypes in ({}, *together):
                if set(dtypes.values()) <= set(MIXED):
                    yield dtypes, {"dtype": dtype}


def mixed(names):
    """Yields two dtypes for the tensors that had one: for each against the others."""
    if len(names) < 2:
        return
    for one in MIXED:
        for other in MIXED:
            if one != other:
                yield {**dict.fromkeys(names, other), names[0]: one}, {}
    for name in names[1:] if len(names) > 2 else ():
        for one in MIXED:
            for other in (torch.float32, torch.int64):
                if one != other:
                    yield {**dict.fromkeys(names, one), name: other}, {}
