"""Remembering what operators return, so that the same call need not be worked out again.

Without data, what an operator returns hangs on the sizes, strides and dtypes of its inputs alone;
so does what it allocates. PyTorch's fake mode remembers too, at several times the cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .fake_tensor import UNPLACED, SimulatedTensor

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode

_PLAIN = frozenset(
    {int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout}
    | {torch.memory_format}
)
_UNFIT = frozenset(
    {
        torch.Tag.data_dependent_output,
        torch.Tag.dynamic_output_shape,
        torch.Tag.inplace_view,
    }
)


class _Made(NamedTuple):
    """How to make one output: ``source`` is the input that it is a view of, or -1."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    device: torch.device
    source: int


class CachedOp:
    """One call: its outputs, and room for what whoever follows storages finds out about it."""

    __slots__ = ("in_place", "made", "plan", "several")

    def __init__(self, made: tuple[_Made, ...], several: type | None, in_place: bool) -> None:
        self.made = made
        self.several = several
        self.in_place = in_place
        self.plan: Any = ...


class OpCache:
    """The calls of one world."""

    def __init__(self, world: SimulatedFakeMode) -> None:
        self._world = world
        self._calls: dict[Any, CachedOp] = {}
        self._fit: dict[Any, bool] = {}
        self._attributes: dict[str, Any] | None = None

    def key(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any | None:
        """What the call's outcome hangs on; ``None`` if it may hang on more."""
        fit = self._fit.get(func)
        if fit is None:
            fit = self._fit[func] = _is_fit(func)
        if not fit:
            return None
        parts: list[Any] = [
            func,
            torch.get_default_dtype(),
            torch.is_inference_mode_enabled(),
            torch.are_deterministic_algorithms_enabled(),
        ]
        if not _describe(args, parts):
            return None
        if kwargs:
            for name, value in kwargs.items():
                parts.append(name)
                if not _describe((value,), parts):
                    return None
        return tuple(parts)

    def find(self, key: Any) -> CachedOp | None:
        """What is remembered of such a call."""
        return self._calls.get(key)

    def again(self, recalled: CachedOp, args: tuple[Any, ...]) -> Any:
        """The outputs, made anew."""
        if recalled.in_place:
            return args[0]
        outputs = [self._make(made, args) for made in recalled.made]
        return outputs[0] if recalled.several is None else recalled.several(outputs)

    def remember(self, key: Any, args: tuple[Any, ...], out: Any) -> CachedOp | None:
        """Keep what a call returned, if it can be made anew."""
        if args and out is args[0]:
            recalled = CachedOp((), None, True)
        else:
            several = None if type(out) is SimulatedTensor else type(out)
            outputs = (out,) if several is None else out
            if several not in (None, tuple, list):
                return None
            made = []
            for tensor in outputs:
                described = self._described(tensor, args)
                if described is None:
                    return None
                made.append(described)
            recalled = CachedOp(tuple(made), several, False)
        self._calls[key] = recalled
        return recalled

    def _described(self, tensor: Any, args: tuple[Any, ...]) -> _Made | None:
        if type(tensor) is not SimulatedTensor or tensor.constant is not None:
            return None
        if self._attributes is None:
            self._attributes = {**vars(tensor)}
        storage = tensor.untyped_storage()
        source = -1
        for place, arg in enumerate(args):
            if type(arg) is SimulatedTensor:
                if arg is tensor:
                    return None
                if arg.untyped_storage()._cdata == storage._cdata:
                    source = place
        shape, stride = tuple(tensor.shape), tensor.stride()
        offset, dtype = tensor.storage_offset(), tensor.dtype
        if source < 0:
            fresh = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
            if offset or fresh.untyped_storage().nbytes() != storage.nbytes():
                return None
        if tensor.dtype.is_complex or tensor.is_neg():
            return None
        return _Made(shape, stride, dtype, int(offset), tensor._fake_device, source)

    def _make(self, made: _Made, args: tuple[Any, ...]) -> Any:
        if made.source < 0:
            elem = torch.empty_strided(made.shape, made.stride, dtype=made.dtype, device="meta")
        else:
            elem = torch.empty(0, dtype=made.dtype, device="meta")
            storage = args[made.source].untyped_storage()
            elem.set_(storage, made.offset, made.shape, made.stride)
        tensor = torch.Tensor._make_subclass(  # as FakeTensor.__new__ does
            self._world.kind, elem, False, dispatch_device=True, device_for_backend_keys=made.device
        )
        torch._C._set_throw_on_mutable_data_ptr(tensor)
        attributes = vars(tensor)
        attributes.update(self._attributes or {})
        attributes["_fake_device"] = made.device
        return tensor


def _is_fit(func: Any) -> bool:
    overload = func._overloadname
    return (
        isinstance(func, torch._ops.OpOverload)
        and func.namespace == "aten"
        and not _UNFIT.intersection(func.tags)
        and "out" not in overload.split("_")
        and "lift" not in str(func)
        and not func._schema.name.startswith("aten::_foreach")
    )


def _describe(values: Any, parts: list[Any]) -> bool:
    """Add what is to be known of the values; whether that can be told."""
    for value in values:
        if type(value) is SimulatedTensor:
            if value.constant is not None or value.dtype.is_complex:
                return False
            parts.append(
                (
                    value.shape,
                    value.stride(),
                    value.dtype,
                    value.storage_offset(),
                    value._fake_device.type,
                    value._fake_device is UNPLACED,
                )
            )
            continue
        kind = type(value)
        if kind in _PLAIN:
            parts.append(kind)
            parts.append(value)
        elif kind is list or kind is tuple or kind is torch.Size:
            parts.append(len(value))
            if not _describe(value, parts):
                return False
        else:
            return False
    return True
