"""The counters of a device, whose memory a test takes and gives back."""

import weakref


class Block:
    """Memory of a scripted device."""


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
