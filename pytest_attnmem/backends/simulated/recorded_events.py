"""The allocations of a program, in the order in which it makes them on an empty device."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import StartAgain
from ...measurement.held import Held
from .simulation import Simulation


def recorded(
    simulation: Simulation, program: Callable[[], object]
) -> tuple[list[Held | int], str | None]:
    """Runs a program on an empty device; returns its events and a reason to distrust them.

    An event is an allocation, or the number of the allocation that is freed.
    """
    try:
        return _once(simulation, program, device_named=False)
    except StartAgain:
        return _once(simulation, program, device_named=True)


def _once(
    simulation: Simulation, program: Callable[[], object], device_named: bool
) -> tuple[list[Held | int], str | None]:
    simulation.restart(device_named)
    simulation.prime()
    with simulation.active():
        simulation.start()
        try:
            result = program()
            events = [*simulation.device.events()]
        finally:
            problem = simulation.stop().problem
    del result
    return events, problem
