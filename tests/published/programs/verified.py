"""Workloads of ``attnmem verify``: the numbers of a GPU's ``--json`` file, measured once more."""

from __future__ import annotations

from functools import cache
from typing import Any

from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.verification.server import peaks
from pytest_attnmem.verification.workloads import WORKLOADS


@cache
def device() -> Any:
    """Returns the device that this process runs on."""
    return open_primed("null")


def workload(name: str) -> dict[str, Any]:
    """Returns the peaks of a workload, as its row in the file has them."""
    found = peaks(device(), next(one for one in WORKLOADS if one.name == name))
    return found.as_json()
