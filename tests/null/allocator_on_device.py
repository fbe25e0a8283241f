"""Feeds random events to PyTorch's own allocator under the null runtime."""

import random
import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1] / "allocator"))
from replay import Model, play

MIB = 2**20
LEVELS = {
    **{name: f"{name}_bytes" for name in ("requested", "allocated", "active", "reserved")},
    "inactive_split": "inactive_split_bytes",
    "segments": "segment",
}
COUNTS = {
    "alloc_retries": "num_alloc_retries",
    "ooms": "num_ooms",
    "oom_rejections": "num_oom_rejections",
    "device_allocs": "num_device_alloc",
    "device_frees": "num_device_free",
}
LIMITS = (1, 511, 512, 513, MIB - 1, MIB, MIB + 1, 2 * MIB, 10 * MIB - 1, 10 * MIB, 10 * MIB + 1)


class Real:
    """Returns the allocator of the current device, emptied."""

    def __init__(self):
        torch.empty(1, device="cuda")
        torch.cuda.empty_cache()
        torch._C._cuda_resetAccumulatedMemoryStats(0)
        self.reset_peak()
        self.streams = [torch.cuda.default_stream(), torch.cuda.Stream()]
        self.live = []

    def malloc(self, nbytes, stream):
        try:
            with torch.cuda.stream(self.streams[stream]):
                self.live.append((torch.empty(nbytes, dtype=torch.uint8, device="cuda"), stream))
        except torch.OutOfMemoryError:
            pass

    def free(self, index):
        del self.live[index]

    def record_stream(self, index, stream):
        self.live[index][0].record_stream(self.streams[stream])

    def empty_cache(self):
        torch.cuda.empty_cache()

    def reset_peak(self):
        torch._C._cuda_resetPeakMemoryStats(0)

    def statistics(self):
        found = torch._C._cuda_memoryStats(0)  # unlike memory_stats(), in microseconds
        levels = {name: found[key]["all"] for name, key in LEVELS.items()}
        return {
            **{name: [level["current"], level["peak"]] for name, level in levels.items()},
            **{name: found[key] for name, key in COUNTS.items()},
        }


def events(memory, seed, steps, tidy):
    """Yields random events; each depends on the memory after the previous event.

    If ``tidy`` is true, some events free many tensors at once; otherwise memory fragments.
    """
    rng = random.Random(seed)
    for _ in range(steps):
        live, chance = len(memory.live), rng.random()
        if not live or chance < 0.5:
            yield ["malloc", size(rng), rng.choice((0, 0, 0, 1))]
        elif chance < 0.9:
            yield ["free", rng.randrange(live)]
        elif chance < 0.94:
            # PyTorch waits for several streams in an order of its own.
            index = rng.randrange(live)
            yield ["record_stream", index, memory.live[index][1] or rng.randrange(2)]
        elif chance < 0.96:
            for left in range(live, rng.randrange(live) if tidy else live, -1):
                yield ["free", rng.randrange(left)]
        else:
            yield ["empty_cache"] if chance < 0.98 else ["reset_peak"]


def size(rng):
    """Returns the bytes of an allocation, of each kind that the allocator distinguishes."""
    chance = rng.random()
    if chance < 0.1:
        return rng.choice(LIMITS)
    if chance < 0.4:
        return rng.randint(1, 4096)
    if chance < 0.6:
        return rng.randint(1, MIB)
    if chance < 0.8:
        return rng.randint(MIB, 12 * MIB)
    if chance < 0.95:
        return rng.randint(8 * MIB, 100 * MIB)
    return rng.randint(50 * MIB, 700 * MIB)


def record(seed, steps, tidy):
    """Returns events, and the change of the statistics at each event."""
    real, told, known = Real(), [], {}
    for event in events(real, seed, steps, tidy):
        now = play(real, event)
        told.append([*event, {k: v for k, v in now.items() if known.get(k) != v}])
        known = now
    return told


def compare(settings, capacity, seed, steps, tidy):
    """Returns the first event after which the model differs, and the final real statistics."""
    real, model = Real(), Model(settings, capacity)
    for event in events(real, seed, steps, tidy):
        expected, found = play(real, event), play(model, event)
        if found != expected:
            return [event, expected, found], expected
    return None, real.statistics()
