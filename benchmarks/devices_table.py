"""Write the tables of ``docs/reference/devices.md``: ``python benchmarks/devices_table.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_attnmem.backends.simulated.attention.sdp_params import Described, SdpParams
from pytest_attnmem.backends.simulated.attention.select_backend import select_backend
from pytest_attnmem.nulldevice.launch import Devices
from pytest_attnmem.profiles import ARCHITECTURES, PROFILES, DeviceProfile
from pytest_attnmem.torch_releases import KNOWN

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "devices.md"
_MIB: Final = 1 << 20
_SHAPE: Final = (2, 8, 1024, 64)
_SCORES: Final = (1024, 1024)


def render(page: str) -> str:
    """Returns the page with current rows between the marks of its three tables."""
    for name, rows in (("devices", _devices()), ("limits", _limits()), ("attention", _choices())):
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        table, end, after = rest.partition(f"<!-- /{name} -->")
        heads = table.splitlines(keepends=True)[:2]
        page = before + start + "".join([*heads, *rows]) + end + after
    return page


def _devices() -> Iterator[str]:
    for profile in PROFILES.values():
        clock = str(profile.clock_mhz)
        if profile.tensor_clock_mhz:
            clock += f", {profile.tensor_clock_mhz}"
        yield _row(
            f"`{Devices(profile)}`",
            _dotted(profile.compute_capability),
            profile.multiprocessors,
            f"{profile.memory_bytes:,}",
            f"{profile.l2_bytes / _MIB:g}",
            f"{profile.bus_bits} x {profile.memory_clock_mhz}",
            clock,
            "yes" if profile.peer_access else "no",
            _linked(profile),
        )


def _limits() -> Iterator[str]:
    for capability, facts in ARCHITECTURES.items():
        yield _row(
            _dotted(capability),
            f"{facts.shared_bytes_per_block:,}",
            f"{facts.shared_bytes_per_multiprocessor:,}",
            facts.threads_per_multiprocessor,
            facts.blocks_per_multiprocessor,
            _dotted(facts.kernels) if facts.kernels else "none",
        )


def _choices() -> Iterator[str]:
    for capability in ARCHITECTURES:
        calls = (
            ("float16", False, False, _SHAPE),
            ("float16", True, False, _SHAPE),
            ("bfloat16", True, False, _SHAPE),
            ("float16", True, True, _SHAPE),
            ("float32", True, False, _SHAPE),
        )
        chosen = (_chosen(capability, *call) for call in calls)
        yield _row(_dotted(capability), *chosen)


def _chosen(
    capability: tuple[int, int], dtype: str, trains: bool, masked: bool, shape: tuple[int, ...]
) -> str:
    """Returns the backends that the known releases choose, one if they agree."""
    one = Described(shape, _strides(shape), dtype, requires_grad=trains)
    mask = Described(_SCORES, _strides(_SCORES), dtype) if masked else None
    found = (
        select_backend(SdpParams(one, one, one, capability, version, mask)).backend or "none"
        for version in KNOWN
    )
    return " / ".join(dict.fromkeys(found))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def _linked(profile: DeviceProfile) -> str:
    return re.sub(r"(\S+\.(?:com|io|ai|org)/\S+[^\s:;,])", r"<https://\1>", profile.source)


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
