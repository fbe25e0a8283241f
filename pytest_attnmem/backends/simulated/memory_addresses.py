"""The addresses of simulated tensors: of their blocks on the device, of real memory on the host.

Libraries compare addresses to find shared tensors, and C++ code reads the memory of tensors of the
host, so the memory of these exists once somebody asks for its address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from .storage_lifetimes import StorageLifetimes
    from .values import Values


class MemoryAddresses:
    """Knows the addresses of the storages of one simulation."""

    def __init__(self, lifetimes: StorageLifetimes, values: Values) -> None:
        self._lifetimes = lifetimes
        self._values = values

    def of_tensor(self, tensor: Any) -> int:
        """Returns the address of a tensor's first element; 0 for a tensor without elements.

        Raises:
            UnknownValue: it is on the host, and nobody knows its values.
        """
        if not tensor.numel():
            return 0
        storage = tensor.untyped_storage()
        block = self._lifetimes.block_of(storage)
        if block is not None:
            start = block.address
        elif tensor.is_cuda:  # from before a restart
            start = storage._cdata
        else:
            start = self._values.host_address(storage) or 0
        return int(start + tensor.storage_offset() * tensor.element_size())

    def of_storage(self, storage: torch.UntypedStorage) -> int | None:
        """Returns the address of a storage; None for a storage that is not simulated.

        Raises:
            UnknownValue: it is on the host, and nobody knows its values.
        """
        block = self._lifetimes.block_of(storage)
        if block is not None:
            return block.address
        return self._values.host_address(storage)
