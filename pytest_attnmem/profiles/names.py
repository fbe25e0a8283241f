"""Profiles by name, as users write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ..errors import BackendUnavailable
from ..suggestion import closest
from ..units import shown
from .device_profile import DeviceProfile
from .rows import PROFILES

_MOST_MEANT: Final = 4
#: What the name of a part of a GPU has, and that of a whole one has not.
_SLICE: Final = " MIG "


def find_profile(name: str, more: Iterable[DeviceProfile] = ()) -> DeviceProfile:
    """Returns the profile with this name; case, spaces, dashes and underscores do not matter.

    Raises:
        BackendUnavailable: neither the built-in profiles nor ``more`` have the name.
    """
    profiles = {profile.name: profile for profile in (*PROFILES.values(), *more)}
    for profile in profiles.values():
        if plain(profile.name) == plain(name):
            return profile
    found = meant(name, profiles)
    hint = f"did you mean {' or '.join(found)}? " if found else ""
    whole = ", ".join(profile for profile in profiles if _SLICE not in profile)
    raise BackendUnavailable(
        f"unknown device {shown(name)}; {hint}expected one of {whole}, or a slice such as"
        f" {next(profile for profile in PROFILES if _SLICE in profile)}"
    )


def plain(name: str) -> str:
    """Returns a name without what does not matter in it."""
    return name.casefold().replace("-", "").replace(" ", "").replace("_", "")


def meant(name: str, profiles: Iterable[str] = PROFILES) -> list[str]:
    """Returns the few profiles that a user most likely meant, ``A100-40GB`` and ``A100-80GB``."""
    known = {plain(profile): profile for profile in profiles}
    asked = plain(name)
    found = _shortest(one for one in known if len(asked) > 1 and asked in one)
    found = found or _fullest(name, known.values())
    if not found and (close := closest(asked, known, 0.75)):
        found = [close]
    return [known[one] for one in found] if len(found) <= _MOST_MEANT else []


def _shortest(names: Iterable[str]) -> list[str]:
    """Returns the names that extend no other one: an A100, and not each of its slices."""
    found = list(names)
    return [one for one in found if not any(one != other in one for other in found)]


def _fullest(name: str, profiles: Iterable[str]) -> list[str]:
    """Returns the profiles of the most words, all of them in *name*, as CUDA writes it."""
    asked = _words(name)
    inside = [profile for profile in profiles if _words(profile) <= asked]
    most = max((len(_words(profile)) for profile in inside), default=0)
    return [plain(profile) for profile in inside if len(_words(profile)) == most]


def _words(name: str) -> set[str]:
    """Returns the words of a name, without the ``MIG`` that some programs leave out."""
    return {*re.split(r"[-_ ]+", name.casefold())} - {"mig"}
