"""Arithmetic of bfloat16 and float8 for Triton's interpreter, which has their bits as integers.

The interpreter (triton/runtime/interpreter.py) adds and multiplies these integers, and truncates
where a GPU rounds to the nearest. Here each operation is done in float32, and its result rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

#: Triton's names of the dtypes whose bits it keeps as integers, and PyTorch's dtypes.
NARROW: Final[Mapping[str, torch.dtype]] = MappingProxyType(
    {
        "bf16": torch.bfloat16,
        "fp8e5": torch.float8_e5m2,
        "fp8e4nv": torch.float8_e4m3fn,
        "fp8e4b8": torch.float8_e4m3fnuz,
        "fp8e5b16": torch.float8_e5m2fnuz,
    }
)
#: Each method of the interpreter's builder that computes, and the argument with its result's dtype.
COMPUTING: Final[Mapping[str, int]] = MappingProxyType(
    {
        **dict.fromkeys(("binary_op", "unary_op", "create_rsqrt"), 0),
        **dict.fromkeys(("ternary_op", "create_fma", "create_dot"), 2),
    }
)


class NarrowFloats:
    """The conversions between the interpreter's integers and float32."""

    def __init__(self, interpreter: Any) -> None:
        self._handle = interpreter.TensorHandle
        self._numpy = interpreter.np
        self._tl = interpreter.tl

    def wide(self, handle: Any) -> Any:
        """Returns a value with the arithmetic of NumPy: float32 in the place of a narrow float."""
        name = self._name(handle)
        if name is None:
            return handle
        integers = torch.from_numpy(self._numpy.array(handle.data))
        values = integers.view(NARROW[name]).to(torch.float32)
        return self._handle(values.numpy(), self._tl.float32)

    def narrowed(self, handle: Any, like: Any) -> Any:
        """Returns a result of :meth:`wide` values in the dtype ``like``; a comparison as it is."""
        if handle.data.dtype == bool:
            return self._handle(handle.data, like)
        values = torch.from_numpy(self._numpy.array(handle.data, dtype=self._numpy.float32))
        dtype = NARROW[like.name]
        if dtype.itemsize == 1:  # as cvt.satfinite of PTX does
            most = torch.finfo(dtype).max
            values = values.clamp(-most, most)
        integers = torch.int16 if dtype.itemsize == 2 else torch.int8
        unsigned = self._numpy.uint16 if dtype.itemsize == 2 else self._numpy.uint8
        return self._handle(values.to(dtype).view(integers).numpy().view(unsigned), like)

    def computed(self, method: Callable[..., Any], position: int) -> Callable[..., Any]:
        """Returns a method of the builder that computes narrow floats in float32."""

        def compute(*args: Any) -> Any:
            if not any(map(self._name, args)):
                return method(*args)
            found = method(*map(self.wide, args))
            like = args[position].dtype.scalar
            return self.narrowed(found, like) if like.name in NARROW else found

        return compute

    def atomic(self, method: Callable[..., Any], add: Any, memory: Any) -> Callable[..., Any]:
        """Returns an atomic method, which computes sums of narrow floats.

        Args:
            method: the builder's.
            add: the operation that adds floats.
            memory: loads and stores, as :class:`~.interpreted_triton.KernelMemory` does.
        """

        def call(*args: Any) -> Any:
            if not any(map(self._name, args)):
                return method(*args)
            if args[0] != add:
                raise NotImplementedError("an atomic operation of narrow floats has no equivalent")
            return self._added(memory, *args[1:4])

        return call

    def _added(self, memory: Any, pointers: Any, values: Any, mask: Any) -> Any:
        """Adds values in place, one after the other; returns what was there before each."""
        addresses, given = pointers.data.reshape(-1), values.data.reshape(-1)
        before = self._numpy.zeros_like(given)
        for i in self._numpy.flatnonzero(mask.data):
            at, active = addresses[i : i + 1].copy(), self._numpy.ones(1, dtype=bool)
            before[i : i + 1] = memory.load(at, active, given[i : i + 1].copy(), given.dtype)
            terms = [
                self.wide(self._handle(bits[i : i + 1], values.dtype)).data
                for bits in (before, given)
            ]
            total = self._handle(terms[0] + terms[1], self._tl.float32)
            memory.store(at, self.narrowed(total, values.dtype.scalar).data, active)
        return self._handle(before.reshape(values.data.shape), values.dtype.scalar)

    def cast(self, cast: Callable[..., Any]) -> Callable[..., Any]:
        """Returns ``cast_impl`` for all dtypes."""

        def convert(handle: Any, dtype: Any) -> Any:
            to = dtype.scalar
            if getattr(to, "name", "") not in NARROW:
                return cast(self.wide(handle), dtype)
            return self.narrowed(cast(self.wide(handle), self._tl.float32), to)

        return convert

    def reduced(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        """Returns ``apply`` of reductions and scans, for all dtypes."""

        def reduce(self_: Any, given: Any) -> Any:
            if not isinstance(given, tuple):
                return reduce(self_, (given,))[0]
            found = apply(self_, tuple(map(self._wide_tensor, given)))
            # An index among the results has no dtype of an input.
            return tuple(map(self._like_input, found, given))

        return reduce

    def _wide_tensor(self, tensor: Any) -> Any:
        handle = getattr(tensor, "handle", None)
        if handle is None or self._name(handle) is None:
            return tensor
        return self._tensor(self.wide(handle), tensor.type)

    def _like_input(self, result: Any, given: Any) -> Any:
        if self._name(given.handle) is None or result.handle.dtype != self._tl.float32:
            return result
        return self._tensor(self.narrowed(result.handle, given.handle.dtype.scalar), result.type)

    def _tensor(self, handle: Any, like: Any) -> Any:
        dtype = handle.dtype
        kind = self._tl.block_type(dtype, like.shape) if like.is_block() else dtype
        return self._tl.core.tensor(handle, kind)

    def _name(self, value: Any) -> str | None:
        """Returns the name of a narrow dtype, None for another value."""
        if not isinstance(value, self._handle) or isinstance(value.dtype, self._tl.pointer_type):
            return None
        name = str(getattr(value.dtype.scalar, "name", ""))
        return name if name in NARROW else None
