"""Writes the table of devices in ``docs/reference/null-device.md``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pytest_attnmem.nulldevice.launch import Devices
from pytest_attnmem.profiles import PROFILES
from pytest_attnmem.units import format_size

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "null-device.md"


def render(page: str) -> str:
    """Returns the page with a row for each profile between the marks of the table."""
    before, start, rest = page.partition("<!-- devices -->\n")
    table, end, after = rest.partition("<!-- /devices -->")
    rows = [
        f"| `{Devices(profile)}` | {'.'.join(map(str, profile.compute_capability))} |"
        f" {profile.multiprocessors} | {format_size(profile.memory_bytes)} |\n"
        for profile in PROFILES.values()
    ]
    return before + start + "".join([*table.splitlines(keepends=True)[:2], *rows]) + end + after


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
