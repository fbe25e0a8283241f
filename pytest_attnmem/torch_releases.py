"""The releases of PyTorch whose memory rules are known. No torch.

A rule that rests on PyTorch's C++ code holds for these releases only: its recordings come from
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: Major and minor version, ``(2, 15)``.
Version = tuple[int, int]

#: Release → the commit that it was built from, as ``torch.version.git_version`` has it.
RELEASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "2.13.0": "cf30153c4c131c8164ee7798e5022d810682e2cb",
        "2.14.0": "08187d9e0fba026dc8217405802ab5381dc88d90",
        "2.14.1": "5c4886908584029761b579af026dcfb627c84070",
        "2.15.0": "d0f2af8b66b20da4baa50644c0cd3f887a2eae2e",
    }
)

_RELEASE = re.compile(r"(\d+)\.(\d+)\.\d+")


def minor_version(release: str) -> Version:
    """Returns ``(2, 15)`` for ``2.15.0+cu132``; ``(0, 0)`` for a text without a version."""
    found = _RELEASE.match(release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


#: The versions whose rules are known, in order.
KNOWN: Final = tuple(sorted({minor_version(release) for release in RELEASES}))
