"""A player of events on the model, which records the statistics after each event.

Events are ``["malloc", bytes, stream]``, ``["free", index]``, ``["record_stream", index, stream]``,
``["empty_cache"]`` and ``["reset_peak"]``; an index counts live allocations, the oldest first.
"""

from contextlib import suppress

from pytest_attnmem.allocator import AllocationError, CachingAllocator, parse_settings


class Model:
    """A fresh allocator under these settings."""

    def __init__(self, settings, capacity):
        self.allocator = CachingAllocator(parse_settings(settings), capacity=capacity)
        self.live = []

    def malloc(self, nbytes, stream):
        with suppress(AllocationError):
            self.live.append(self.allocator.malloc(nbytes, stream))

    def free(self, index):
        self.allocator.free(self.live.pop(index))

    def record_stream(self, index, stream):
        self.allocator.record_stream(self.live[index], stream)

    def empty_cache(self):
        self.allocator.empty_cache()

    def reset_peak(self):
        self.allocator.reset_peak()

    def statistics(self):
        """Returns the statistics by name; a level is its current amount and its peak."""
        named = self.allocator.statistics._asdict()
        return {k: list(v) if isinstance(v, tuple) else v for k, v in named.items()}


def play(memory, event):
    """Plays one event on the model, or on an object like it; returns the statistics after it."""
    name, *arguments = event
    getattr(memory, name)(*arguments)
    return memory.statistics()
