"""The versions of PyTorch whose memory rules are written down. No torch."""

from __future__ import annotations

import re
from typing import Final

#: Major and minor version, ``(2, 15)``.
Version = tuple[int, int]

#: The versions that rules name, and that recordings are of; ``certified`` says where rules hold.
KNOWN: Final[tuple[Version, ...]] = ((2, 13), (2, 14), (2, 15))

#: The beginning of the reason why a torch without rules measures nothing.
NO_RULES: Final = "no rules for torch"

_MINOR = re.compile(r"(\d+)\.(\d+)\.\d+")


def rules_version(release: str) -> Version:
    """Returns the newest known version that is no newer than a release, or else the oldest."""
    version = minor_version(release)
    return max((one for one in KNOWN if one <= version), default=KNOWN[0])


def minor_version(release: str) -> Version:
    """Returns ``(2, 15)`` for ``2.15.0+cu132``; ``(0, 0)`` for a text without a version."""
    found = _MINOR.match(release)
    return (int(found[1]), int(found[2])) if found else (0, 0)
