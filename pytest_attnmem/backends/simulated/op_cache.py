"""A cache of operator calls, so that the same call need not be computed again.

Without data, the outputs of an operator depend only on the sizes, strides and dtypes of its inputs,
and so do its allocations. PyTorch's fake mode has a cache too, which costs several times as much,
and is turned off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from .cached_op import CachedOp, CachedOutput, offsets_key
from .convolution.settings import cudnn_settings
from .deterministic_ops import algorithms
from .fake_maker import FakeMaker
from .fake_tensor import CUDA, IMPLICIT_CUDA, META, SimulatedTensor
from .index_tensors import MASKS
from .known_calls import KnownCalls, keep
from .op_facts import OpFacts

_warns = torch.is_deterministic_algorithms_warn_only_enabled
_default_dtype = torch.get_default_dtype
_in_inference_mode = torch.is_inference_mode_enabled

#: The elements after which addresses are aligned alike, for every kernel.
ALIGNED: Final = 512
_PLAIN = frozenset(
    {int, float, bool, str, type(None), torch.dtype, torch.layout} | {torch.memory_format}
)


class OpCache:
    """The cached calls of one fake mode; ``known`` are those that other modes know too."""

    def __init__(self, maker: FakeMaker, known: KnownCalls) -> None:
        self._maker = maker
        self.known = known
        self._own: dict[Any, CachedOp] = {}
        """Calls of which cuDNN is asked, in the environment of this simulation."""
        self.has_zeros = False
        """True once there was a tangent of a constant, whose kernels make other tensors."""

    def key(
        self, facts: OpFacts, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any | None, tuple[int, ...]]:
        """Returns everything that the outcome of the call depends on, and the offsets of tensors.

        Kernels ask how an address is aligned, and no more, so that slices of one tensor have one
        key. It is None if the outcome may depend on more, or a tensor is not of the fake mode. The
        offsets are empty if each is 0.
        """
        if not facts.cacheable or (self.has_zeros and _has_zeros(args)):
            return None, ()
        if (facts.indexes and _has_masks(args[1])) or (
            facts.fills and _reads_another(args[0], args[1:])
        ):
            return None, ()
        name = (facts.name, *cudnn_settings()) if facts.reads_cudnn else facts.name
        parts: list[Any] = [name, _default_dtype(), _in_inference_mode(), algorithms(), _warns()]
        if facts.target:
            target = kwargs["out"]
            if _reads_another(target, args):
                return None, ()
            parts.append(tuple([place for place, arg in enumerate(args) if arg is target]))
        offsets: list[int] = []
        mode = self._maker.fake_mode
        if not _add_to_key(args, parts, offsets, mode):
            return None, ()
        if kwargs:
            for name, value in kwargs.items():
                parts.append(name)
                if not _add_to_key((value,), parts, offsets, mode):
                    return None, ()
        found = offsets_key(offsets)
        if found and facts.view and not facts.relative:
            parts.append(found)
        return tuple(parts), found

    def find(self, facts: OpFacts, key: Any) -> CachedOp | None:
        """Returns the cached call with that key."""
        return (self._own if facts.reads_cudnn else self.known.ops).get(key)

    def replay(self, cached: CachedOp, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Returns new outputs for a cached call."""
        if cached.returns is not None:
            return args[0] if cached.returns == 0 else kwargs["out"]
        make = self.make
        if cached.container is None:
            output = cached.outputs[0]
            return output if type(output) is not CachedOutput else make(output, args)
        return cached.container(
            [
                output if type(output) is not CachedOutput else make(output, args)
                for output in cached.outputs
            ]
        )

    def store(
        self, facts: OpFacts, key: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any
    ) -> CachedOp | None:
        """Caches a call; returns None if its outputs cannot be made again from their sizes."""
        if args and out is args[0]:
            cached = CachedOp((), returns=0)
        elif facts.target and out is kwargs.get("out"):
            cached = CachedOp((), returns="out")
        else:
            kinds = (kind for kind in (tuple, list) if isinstance(out, kind))
            container = next(kinds, None)  # a tuple with names is one for C++ code
            outputs: list[CachedOutput | int | None] = []
            for tensor in (out,) if container is None else out:
                if tensor is None or type(tensor) is int:
                    outputs.append(tensor)
                    continue
                output = self.described(tensor, args)
                if output is None or (output.source >= 0 and not (facts.relative or facts.view)):
                    return None
                outputs.append(output)
            cached = CachedOp(tuple(outputs), container)
        keep(self._own if facts.reads_cudnn else self.known.ops, key, cached)
        return cached

    def described(self, tensor: Any, args: tuple[Any, ...]) -> CachedOutput | None:
        """Returns the recipe for an output; None if it cannot be made again from its sizes."""
        if type(tensor) is not SimulatedTensor or tensor.constant is not None:
            return None
        storage = tensor.untyped_storage()
        source = -1
        start: int | torch.SymInt = 0
        for position, arg in enumerate(args):
            if type(arg) is SimulatedTensor:
                if arg is tensor:
                    return None
                if arg.untyped_storage()._cdata == storage._cdata:
                    source, start = position, arg.storage_offset()
        shape, stride = tuple(tensor.shape), tensor.stride()
        offset, dtype = tensor.storage_offset(), tensor.dtype
        if source < 0:
            fresh = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
            if offset or fresh.untyped_storage().nbytes() != storage.nbytes():
                return None
        if tensor._is_zerotensor():
            self.has_zeros = True
            return None
        if tensor.dtype.is_complex or tensor.is_neg():
            return None
        return CachedOutput(shape, stride, dtype, int(offset - start), tensor._fake_device, source)

    def make(self, output: CachedOutput, args: tuple[Any, ...]) -> Any:
        """Returns a new output; ``args`` are those of its call."""
        if output.source < 0:
            elem = torch.empty_strided(output.shape, output.stride, dtype=output.dtype, device=META)
        else:
            source = args[output.source]
            if _in_inference_mode() and not source.is_inference():  # the view is none either
                with torch.inference_mode(False):
                    return self.make(output, args)
            elem = torch.empty(0, dtype=output.dtype, device=META)
            offset = source.storage_offset() + output.offset
            elem.set_(source.untyped_storage(), offset, output.shape, output.stride)
        return self._maker.make(elem, output.device)


def _has_masks(indices: Any) -> bool:
    """Returns True if the size of what is indexed depends on values."""
    return any(index is not None and index.dtype in MASKS for index in indices)


def _reads_another(target: Any, args: Any) -> bool:
    """Returns True if an argument other than the target is in its memory, or is not simulated."""
    own = target.untyped_storage()._cdata
    return any(
        _reads_another(target, arg)
        if type(arg) in (list, tuple)
        else isinstance(arg, torch.Tensor)
        and arg is not target
        and (type(arg) is not SimulatedTensor or arg.untyped_storage()._cdata == own)
        for arg in args
    )


def _has_zeros(args: tuple[Any, ...]) -> bool:
    """Returns True if an argument is the tangent of a constant, which has kernels of its own."""
    return any(
        _has_zeros(arg)
        if type(arg) in (list, tuple)
        else type(arg) is SimulatedTensor and arg._is_zerotensor()
        for arg in args
    )


def _add_to_key(values: Any, parts: list[Any], offsets: list[int], mode: Any) -> bool:
    """Appends the facts that matter of each value; returns False if a value cannot be in a key."""
    for value in values:
        kind = type(value)
        if kind is SimulatedTensor:
            attributes = value.__dict__
            dtype = value.dtype
            if (
                attributes["constant"] is not None
                or attributes["fake_mode"] is not mode
                or dtype.is_complex
                or value.is_neg()
            ):
                return False
            device = attributes["_fake_device"]
            where = 0 if device is IMPLICIT_CUDA else 1 if device is CUDA else device.type
            offset = value.storage_offset()
            offsets.append(offset)
            parts.append((value.shape, value.stride(), dtype, offset % ALIGNED, where))
        elif kind is torch.device:  # the two devices of CUDA are equal, and mean other things
            parts.append(0 if value is IMPLICIT_CUDA else 1 if value is CUDA else value.type)
        elif kind in _PLAIN:
            parts.append(kind)
            parts.append(value)
        elif issubclass(kind, torch._C.Generator):  # it decides the values alone
            parts.append(torch.Generator)
        elif kind is list or kind is tuple or kind is torch.Size:
            parts.append(len(value))
            if not _add_to_key(value, parts, offsets, mode):
                return False
        else:
            return False
    return True
