"""A backend whose numbers a suite sets. Suites import it from their own folder."""

from dataclasses import replace

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.protocol import Delta, Interval


class Memory:
    """The device: a level that tests set, and the peak that the active gauge saw."""

    def __init__(self):
        self.level = 0
        self.problem = None
        self.missing = ""
        self.start()

    def take(self, nbytes):
        self.level += nbytes
        self.allocations += 1
        self.alive.append(Held(nbytes, (nbytes,), "uint8", "take", "model.py:7", "forward"))
        if self.level > self.high:
            self.high = self.level
            self.held = tuple(enumerate(self.alive))

    def give(self, nbytes):
        self.level -= nbytes
        self.alive = [held for held in self.alive if held.nbytes != nbytes]

    def refuse(self):
        """Fails to allocate, as a device that counts it."""
        self.refused = "an allocation was refused"
        raise OutOfMemory("tried to allocate 1.0 TiB")

    def use(self, nbytes):
        """Raises the peak, and retains nothing."""
        self.take(nbytes)
        self.give(nbytes)

    def start(self):
        self.origin = self.high = self.level
        self.allocations = 0
        self.alive = []
        self.held = ()
        self.refused = ""

    def stop(self):
        if self.problem:
            return Interval(None, None, None, 0, self.problem)
        rise = Delta(self.high - self.origin, self.level - self.origin)
        requested = None if self.missing else rise
        seen = (requested, rise, None, self.allocations)
        left = tuple(enumerate(self.alive))
        return Interval(
            *seen, missing=self.missing, held=self.held, left=left, out_of_memory=self.refused
        )


class OutOfMemory(Exception):
    pass


class Untraced:
    """A backend of numbers, without a device."""

    def start(self):
        memory.start()

    def stop(self):
        return replace(memory.stop(), held=(), left=())


class Scripted:
    name = device = "scripted"
    computes = True
    kinds = ("scripted",)
    symbols = {"lanes": 8}  # noqa: RUF012  # a dict, as in the protocol

    def forget(self):
        pass

    def empty_cache(self):
        pass

    def prime(self):
        return 96

    def gauge(self):
        return Untraced()

    def tracer(self):
        return memory

    def out_of_memory(self, error):
        return str(error) if isinstance(error, OutOfMemory) else None


memory = Memory()


def absent(argument):
    raise BackendUnavailable("backend 'absent' cannot measure here: nobody built one")


def pytest_attnmem_register_backends():
    return {"scripted": lambda argument: Scripted(), "absent": absent}
