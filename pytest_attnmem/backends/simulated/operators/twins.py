"""Tensors without data in the place of the device's, for PyTorch's rules of shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from ..generators import RealGenerator
from ..pytorch_device.tensors import TensorMaker, view
from ..shapes.shape_rules import OF_STORAGES

_aten = torch.ops.aten
_META: Final = torch.device("meta")
#: Operators that take tensors of the host of any size beside those of the device.
_MIXED: Final = frozenset(
    {
        *(_aten.copy_.default, _aten.index.Tensor, _aten._unsafe_index.Tensor),
        *(_aten.index_put_.default, _aten.index_put.default, _aten._index_put_impl_.default),
        *(_aten._ctc_loss.Tensor, _aten._ctc_loss_backward.Tensor),
    }
)


class Twins:
    """The twins of one call's tensors."""

    def __init__(self, maker: TensorMaker, func: Any) -> None:
        self._maker = maker
        self._func = func
        self._twins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._storages: dict[int, torch.Tensor] = {}
        """The tensors by the storage of the twin."""

    def of(self, arg: Any) -> Any:
        """Returns an argument with twins in the place of its tensors."""
        if isinstance(arg, torch.Tensor):
            return self._twin(arg)
        if type(arg) in (list, tuple):
            return [self.of(one) for one in arg]
        if type(arg) is torch.device:
            return _META
        return None if isinstance(arg, RealGenerator) else arg

    def _twin(self, tensor: torch.Tensor) -> torch.Tensor:
        if not self._maker.is_here(tensor):
            if not tensor.dim():
                return tensor
            if self._func not in _MIXED:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices,"
                    f" {self._maker.device} and {tensor.device}!"
                )
            return tensor.to(_META)
        stored = self._maker.stored_in(tensor) if self._func in OF_STORAGES else None
        twin = _twin(tensor, None if stored is None else stored.nbytes)
        self._twins[id(twin)] = tensor, twin
        self._storages[twin.untyped_storage()._cdata] = tensor
        return twin

    def changed(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yields the tensors whose twins have got other sizes, with the twins."""
        for tensor, twin in self._twins.values():
            if tensor.shape != twin.shape or tensor.stride() != twin.stride():
                yield tensor, twin

    def shown(self, computed: Any, by_columns: bool) -> Any:
        """Returns tensors without data in the place of those that the host computed."""
        if isinstance(computed, torch.Tensor):
            stride = (1, max(computed.shape[0], 1)) if by_columns else computed.stride()
            return torch.empty_strided(computed.shape, stride, dtype=computed.dtype, device=_META)
        if type(computed) in (list, tuple):
            return type(computed)(self.shown(one, by_columns) for one in computed)
        return computed

    def fresh_in(self, shown: Any) -> Iterator[torch.Tensor]:
        """Yields the tensors in a result with a storage of their own."""
        if isinstance(shown, torch.Tensor):
            if (
                shown.untyped_storage()._cdata not in self._storages
                and id(shown) not in self._twins
            ):
                yield shown
        elif isinstance(shown, list | tuple):
            for one in shown:
                yield from self.fresh_in(one)

    def replaced(self, shown: Any, made: Iterator[torch.Tensor]) -> Any:
        """Returns a result with the device's tensors: those of twins, and new ones in order."""
        if isinstance(shown, torch.Tensor):
            twin = self._twins.get(id(shown))
            if twin is not None:
                return twin[0]
            source = self._storages.get(shown.untyped_storage()._cdata)
            if source is None:
                return next(made)
            offset = int(shown.storage_offset()) + int(source.storage_offset())
            return view(source, shown.shape, shown.stride(), offset)
        if isinstance(shown, list | tuple):
            return type(shown)([self.replaced(one, made) for one in shown])
        return shown


def _twin(tensor: torch.Tensor, nbytes: int | None) -> torch.Tensor:
    """Returns a tensor of the same layout, in a storage of so many bytes if they are given."""
    shape, stride = tensor.shape, tensor.stride()
    if nbytes is None:
        return torch.empty_strided(shape, stride, dtype=tensor.dtype, device=_META)
    storage = torch.empty(nbytes // tensor.element_size(), dtype=tensor.dtype, device=_META)
    return storage.as_strided(shape, stride, tensor.storage_offset())
