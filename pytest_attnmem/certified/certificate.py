"""What ``attnmem certify`` found on one release of PyTorch. No torch.

A file ``2.15.0.json`` beside this one comes with the package; one in the user's cache was made on
this machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ..contents import replace
from ..errors import AttnMemError
from ..nulldevice.kept_build import user_cache
from ..torch_releases import Version, minor_version

_SCHEMA: Final = 1
_PACKAGED: Final = Path(__file__).parent
_COMMIT: Final = re.compile("[0-9a-f]{9,}")


@dataclass(frozen=True, slots=True)
class Certificate:
    """The operators that a release of PyTorch changed; the rules hold for all others."""

    torch: str
    """The release, ``2.15.0``, without what a build adds, ``+cu132``."""
    commit: str
    """The commit that it was built from; empty if the build names none."""
    base: str
    """The version whose rules were compared, ``2.15``."""
    recipes: str
    """The digest of the calls that were compared."""
    operators: int
    calls: int
    """The calls that ran, on all devices together."""
    devices: tuple[str, ...]
    made: str
    """The day."""
    cudnn: str
    """The cuDNN that the build asks for, ``9.26.0``; empty if it asks for none."""
    cuda: str
    """The version of CUDA that it was built with, ``13.2``."""
    refused: Mapping[str, str]
    """Operator → its first call that differs, and both traces."""

    def is_of(self, commit: str) -> bool:
        """Returns True for a build of that commit; distributions often name none."""
        known = _COMMIT.match(commit) and _COMMIT.match(self.commit)
        return not known or commit == self.commit

    def as_json(self) -> dict[str, Any]:
        """Returns the file's values."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"schema": _SCHEMA, **values, "refused": dict(self.refused)}

    def write(self, folder: Path) -> Path:
        """Writes the file and returns its path.

        Raises:
            AttnMemError: that is not possible.
        """
        path = folder / f"{self.torch}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            replace(path, (json.dumps(self.as_json(), indent=1) + "\n").encode())
        except OSError as error:
            raise AttnMemError(f"cannot write {path}: {error.strerror}") from None
        return path


def kept_folder() -> Path:
    """Returns the folder of the certificates that were made on this machine."""
    return user_cache() / "certified"


def release(version: str) -> str:
    """Returns ``2.15.0`` for ``2.15.0+cu132``; a build of a source tree keeps its commit."""
    name, _, local = version.partition("+")
    return f"{name}+{local}" if local.startswith("git") else name


def certificate_of(version: str, commit: str) -> Certificate | None:
    """Returns the certificate of a build; None if there is none, or only that of another commit."""
    for folder in (kept_folder(), _PACKAGED):
        found = _read(folder / f"{release(version)}.json")
        if found is not None and found.is_of(commit):
            return found
    return None


def packaged() -> Iterator[Certificate]:
    """Yields the certificates that come with the package, the newest last."""
    found = filter(None, map(_read, _PACKAGED.glob("*.json")))
    yield from sorted(found, key=lambda one: [*map(int, re.findall(r"\d+", one.torch))])


def newest_for(version: Version) -> Certificate | None:
    """Returns the newest certificate of a version ``(2, 15)``, of which there may be patches."""
    of_version = [one for one in packaged() if minor_version(one.torch) == version]
    return of_version[-1] if of_version else None


def cudnn_of(version: Version) -> str:
    """Returns the cuDNN that builds of a version ask for, ``9.26.0``; empty if nobody knows."""
    kept = filter(None, map(_read, kept_folder().glob("*.json")))
    known = [newest_for(version), *(one for one in kept if minor_version(one.torch) == version)]
    return next((one.cudnn for one in known if one is not None and one.cudnn), "")


def _read(path: Path) -> Certificate | None:
    """Returns the certificate of a file; None if it is not there, or was not written whole."""
    try:
        values = json.loads(path.read_text("utf-8"))
        if values.pop("schema") != _SCHEMA:
            return None
        devices, refused = tuple(values.pop("devices")), MappingProxyType(values.pop("refused"))
        return Certificate(devices=devices, refused=refused, **values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
