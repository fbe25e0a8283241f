"""The counters of a device, whose memory a test takes and gives back."""

import weakref
from collections import Counter


class Block:
    """Memory of a scripted device."""


class ScriptedAllocator:
    """A caching allocator in miniature: 512-byte blocks, segments that stay."""

    def __init__(self):
        self.made = 0
        self.level, self.peak = Counter(), Counter()

    def change(self, nbytes):
        """Allocates so many bytes, or frees them if they are negative."""
        blocks = 512 * -(-abs(nbytes) // 512)
        self.made += nbytes > 0
        self._add("requested_bytes", nbytes)
        self._add("allocated_bytes", blocks if nbytes > 0 else -blocks)
        lacking = self.level["allocated_bytes"] - self.level["reserved_bytes"]
        self._add("reserved_bytes", max(lacking, 0))

    def _add(self, counter, size):
        self.level[counter] += size
        self.peak[counter] = max(self.peak[counter], self.level[counter])

    def hold(self, nbytes):
        block = Block()
        self.change(nbytes)
        weakref.finalize(block, self.change, -nbytes)
        return block

    def statistics(self):
        counters = ("requested_bytes", "allocated_bytes", "reserved_bytes")
        return {
            "allocation.all.allocated": self.made,
            **{f"{name}.all.current": self.level[name] for name in counters},
            **{f"{name}.all.peak": self.peak[name] for name in counters},
        }

    def reset_peaks(self):
        self.peak = Counter(self.level)

    def synchronize(self):
        pass


class ScriptedCounters:
    """What ``torch.cuda`` and ``torch.accelerator`` have in common, as far as backends use it."""

    def __init__(self, *, available=True, requested=True):
        self.available, self.requested = available, requested
        self.level = self.peak = self.made = 0

    def allocate(self, nbytes):
        self.made += nbytes > 0
        self.level += nbytes
        self.peak = max(self.peak, self.level)

    def hold(self, device, nbytes):
        block = Block()
        self.allocate(nbytes)
        weakref.finalize(block, self.allocate, -nbytes)
        return block

    def is_available(self):
        return self.available

    def device_count(self):
        return 2

    def memory_stats(self, index):
        counted = ("allocated", "reserved", *(["requested"] if self.requested else ()))
        numbers = (("current", self.level), ("peak", self.peak))
        return {f"{name}_bytes.all.{kind}": n for name in counted for kind, n in numbers}

    def reset_peak_memory_stats(self, index):
        self.peak = self.level

    def synchronize(self, index):
        pass

    def empty_cache(self):
        pass
