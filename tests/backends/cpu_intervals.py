"""What the CPU's backend records of a function."""

from pytest_attnmem.backends.cpu import Cpu
from pytest_attnmem.backends.cpu_profilers import LegacyProfiler

SEES = "and the cpu backend sees the test's own thread and those that it starts"


def recorded(body, profiler=LegacyProfiler, backend=None):
    recorder = (backend or Cpu(profiler)).gauge()
    recorder.start()
    body()
    return recorder.stop()
