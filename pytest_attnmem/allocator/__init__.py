"""PyTorch's CUDA caching allocator as a model: no torch, no device, exact to the byte.

    allocator = CachingAllocator(parse_settings("expandable_segments:True"), capacity=80 << 30)
    address = allocator.malloc(3 * 512 * 512, stream=0)
    allocator.free(address)
    allocator.statistics.reserved.peak

Its rules are those of c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.13.
"""

from .caching import CachingAllocator
from .configuration import AllocatorSettings, parse_settings, settings_from
from .errors import AddressError, AllocationError, AllocatorSettingsError
from .statistics import Level, Statistics

__all__ = [
    "AddressError",
    "AllocationError",
    "AllocatorSettings",
    "AllocatorSettingsError",
    "CachingAllocator",
    "Level",
    "Statistics",
    "parse_settings",
    "settings_from",
]
