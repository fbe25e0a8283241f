"""The releases of PyTorch whose memory rules are known. No torch.

A rule that rests on PyTorch's C++ code holds for these releases only, from which its recordings
come.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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

#: Version → the fingerprint of its operators, as ``measurement.installed_torch`` computes it.
FINGERPRINTS: Final[Mapping[Version, str]] = MappingProxyType(
    {
        (2, 13): "f56f1e7910526fcfe1494392920cd5922df8088e4451c3b65aea8993b7028757",
        (2, 14): "bd310f06283271703dd136d9a8c970262be3dafc888b0ee52615ff1d397d24ef",
        (2, 15): "974742d9e8ae41d24fa9d306e56ba960f352fabe3d33db45c54e829b9a1c53b8",
    }
)

#: Version → the cuDNN that its builds on PyPI come with.
CUDNN: Final[Mapping[Version, str]] = MappingProxyType(
    {(2, 13): "9.20.0", (2, 14): "9.24.0", (2, 15): "9.26.0"}
)

#: The beginning of the reason that :func:`no_rules` gives.
NO_RULES: Final = "no rules for torch"

_MINOR = re.compile(r"(\d+)\.(\d+)\.\d+")
#: ``2.15.0``, ``2.15.1.post1`` and ``2.15.0+cu132``; no nightly, no candidate, no ``2.15.0+git1a``.
_FINAL = re.compile(r"(\d+\.\d+\.\d+)(\.post\d+)?(\+(?!git).+)?")


def minor_version(release: str) -> Version:
    """Returns ``(2, 15)`` for ``2.15.0+cu132``; ``(0, 0)`` for a text without a version."""
    found = _MINOR.match(release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


#: The versions whose rules are known, in order.
KNOWN: Final = tuple(sorted({minor_version(release) for release in RELEASES}))


def no_rules(version: str, commit: str | None, fingerprint: Callable[[], str]) -> str:
    """Returns ``no rules for torch 2.16; known: 2.13 to 2.15``, or "" if the rules are known.

    A release is known by its commit. Another build of a known version, which has another commit or
    names none, is known if its operators are the release's: ``fingerprint`` is called for it alone.
    A nightly or a candidate is never known.
    """
    minor, final = minor_version(version), _FINAL.fullmatch(version)
    if final is None:
        return _unknown(version)
    if minor not in KNOWN:
        return _unknown(_dotted(minor))
    listed = RELEASES.get(final[1]) if not final[2] else None
    if (listed is not None and listed == commit) or fingerprint() == FINGERPRINTS[minor]:
        return ""
    return _unknown(version if listed is None else f"{version} (commit {_short(commit)})")


def _unknown(torch: str) -> str:
    return f"{NO_RULES} {torch}; known: {_dotted(KNOWN[0])} to {_dotted(KNOWN[-1])}"


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _short(commit: str | None) -> str:
    """Returns the first 9 digits; distributions that build torch themselves often name none."""
    return commit[:9] if commit and re.fullmatch("[0-9a-f]{9,}", commit) else "unknown"
