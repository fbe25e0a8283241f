"""What kept a budget from being enforced, and what to do about it."""

from __future__ import annotations

from enum import Enum


class Obstacle(Enum):
    """What kept a budget from being enforced; a reason tells the particulars of one test."""

    NOTHING_ALLOCATED = (
        "make the tensors in the test, on the measured device (device=attnmem.device); a test that"
        " should allocate nothing has the limit 0"
    )
    NOT_COUNTED = (
        "do what the reason says, or name a backend that can count it: backend='null' in the"
        " marker, or --attnmem-backend"
    )
    METRIC_NOT_COUNTED = (
        "hold metric='peak' or 'retained', which each backend counts, or name a backend that counts"
        " this one: cuda, null or simulated"
    )
    FIRST_IMPORT = "import it before the measurement: warmup=1 in the marker, or in a fixture"
    GROWTH_NOT_KNOWN = (
        "do what the reason says: what varies must be a whole-number argument of the test, and each"
        " run must begin alike (warmup=1); or write a formula"
    )
    VALUE_NOT_KNOWN = (
        "leave out of the test what nobody can know here, or name a backend that knows it:"
        " --attnmem-backend cpu, null or cuda"
    )
    NOT_COMPARED = "let both be measured: the reason says which was not, and why"
    NOT_REPEATED = (
        "give each run of the test a state of its own: the reason names what outlives a run, or why"
        " the test does not run again"
    )
    REGION_LEFT = "catch the error inside the region, so that the region comes to its end"
    REGION_OPEN = "end the 'with' of the region before the test ends"
    NOT_FINISHED = "let the test come to its end", True
    """The test was skipped, failed or was stopped; pytest says so itself."""
    NO_ENTRY = "record one: --attnmem-update new", True
    NO_LIMIT_HERE = "give this device a limit, or write one for each device as 'default'", True
    NO_DEVICE = (
        "run where the device is, or name one that this machine can stand for:"
        " --attnmem-backend simulated:H100",
        True,
    )

    def __init__(self, remedy: str, excused: bool = False) -> None:
        self.remedy = remedy
        """What to do."""
        self.excused = excused
        """True if the session could not have enforced the budget."""
