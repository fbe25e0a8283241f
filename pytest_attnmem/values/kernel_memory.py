"""The memory that an interpreted kernel may read and write: the storages of its tensors.

Triton's interpreter reads and writes any address. An address that a kernel computed wrongly, or
that belongs to the device, would end the process.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class KernelMemory:
    """The functions of ``triton._C.libtriton.interpreter``; those that use memory check it first.

    Raises:
        MemoryError: an address is outside the tensors.
    """

    def __init__(self, native: Any, numpy: Any, tensors: Iterable[torch.Tensor]) -> None:
        self._native = native
        self._numpy = numpy
        storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors}
        self._starts = sorted(storages)
        self._ends = [start + storages[start].untyped_storage().nbytes() for start in self._starts]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def load(self, addresses: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """Returns the elements at the addresses."""
        mask = self._checked(addresses, mask, dtype.itemsize)
        return self._native.load(addresses, mask, other, dtype)

    def store(self, addresses: Any, values: Any, mask: Any) -> Any:
        """Writes the elements."""
        mask = self._checked(addresses, mask, values.dtype.itemsize)
        return self._native.store(addresses, values, mask)

    def atomic_rmw(self, op: Any, addresses: Any, values: Any, mask: Any, order: Any) -> Any:
        """Changes the elements, one after the other."""
        mask = self._checked(addresses, mask, values.dtype.itemsize)
        return self._native.atomic_rmw(op, addresses, values, mask, order)

    def atomic_cas(self, addresses: Any, compared: Any, values: Any, order: Any) -> Any:
        """Exchanges the elements that are equal to others."""
        self._checked(addresses, True, values.dtype.itemsize)
        return self._native.atomic_cas(addresses, compared, values, order)

    def _checked(self, addresses: Any, mask: Any, itemsize: int) -> Any:
        """Returns the mask as an array."""
        numpy = self._numpy
        mask = numpy.broadcast_to(numpy.asarray(mask, dtype=bool), addresses.shape)
        used = addresses if mask.all() else addresses[mask]
        if used.size and not self._holds(int(used.min()), int(used.max()), itemsize):
            ends = self._numpy.asarray(self._ends, dtype=numpy.uint64)
            starts = self._numpy.asarray(self._starts, dtype=numpy.uint64)
            place = numpy.searchsorted(starts, used, side="right") - 1
            inside = (place >= 0) & (used + numpy.uint64(itemsize) <= ends[place])
            if not inside.all():
                raise MemoryError("it uses an address that is outside its tensors")
        return mask

    def _holds(self, first: int, last: int, itemsize: int) -> bool:
        """Returns True if one storage has the first and the last address."""
        place = bisect_right(self._starts, first) - 1
        return place >= 0 and last + itemsize <= self._ends[place]
