"""Which operators are certified for the installed torch: by a file, or on null as they are used."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final

import torch

from ...certified.certificate import kept_folder, release
from ...errors import BackendUnavailable
from ...measurement.installed_torch import certificate, commit
from ...profiles import DeviceProfile
from ...torch_releases import minor_version
from .null_process import NullProcess
from .recipes import digest, vouching

#: The folders whose code decides what is compared: an answer that is kept holds for these files.
_RULES: Final = ("scratch", "attention", "convolution")


def refusal(op: str, profile: DeviceProfile) -> str:
    """Returns why nothing is enforced where ``op`` runs, or an empty text."""
    known = certificate()
    if known is None:
        return _certifier(profile).refusal(op)
    changed = known.refused and any(one in known.refused for one in vouching(op))
    return changed_text(op) if changed else ""


def changed_text(op: str) -> str:
    """Returns ``aten.mm.default changed in torch 2.16.0; attnmem certify``."""
    return f"{op} changed in torch {release(torch.__version__)}; attnmem certify"


class SessionCertifier:
    """Certifies the operators that a session uses, on null, and keeps the answers."""

    def __init__(self, profile: DeviceProfile, kept: Path) -> None:
        self._profile, self._kept = profile, kept
        self._process: NullProcess | None = None
        self._missing = ""
        self._lock = Lock()  # a program may have threads
        self._changed = {op: bool(differs) for op, differs in _lines(kept)}

    def refusal(self, op: str) -> str:
        """Returns why nothing is enforced where ``op`` runs, or an empty text."""
        with self._lock:
            try:
                changed = any(map(self._is_changed, vouching(op)))
            except BackendUnavailable as error:
                return f"{op} is not certified for torch {release(torch.__version__)}: {error}"
        return changed_text(op) if changed else ""

    def _is_changed(self, op: str) -> bool:
        if op not in self._changed:
            answer = self._running().ask(op)
            if answer["failed"]:
                raise BackendUnavailable(answer["differs"])
            self._changed[op] = bool(answer["differs"])
            with suppress(OSError):  # then another session asks again
                self._kept.parent.mkdir(parents=True, exist_ok=True)
                with self._kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([op, answer["differs"]]) + "\n")
        return self._changed[op]

    def _running(self) -> NullProcess:
        """Returns the process, which starts at the first operator that no session has asked for.

        Raises:
            BackendUnavailable: it did not start, now or before.
        """
        if self._missing:
            raise BackendUnavailable(self._missing)
        try:
            if self._process is None:
                self._process = NullProcess(self._profile, minor_version(torch.__version__))
        except BackendUnavailable as error:
            self._missing = str(error)
            raise
        return self._process


@cache
def _certifier(profile: DeviceProfile) -> SessionCertifier:
    facts = hashlib.sha256(f"{digest()} {commit()} {profile}".encode())
    rules = Path(__file__).parents[1] / "simulated"
    for path in sorted(path for folder in _RULES for path in (rules / folder).glob("*.py")):
        facts.update(path.read_bytes())
    name = f"{release(torch.__version__)}-{facts.hexdigest()[:16]}.jsonl"
    return SessionCertifier(profile, kept_folder() / name)


def _lines(path: Path) -> list[tuple[str, str]]:
    """Returns the operators of a file and how they differ; a line that was cut off is left out."""
    found = []
    with suppress(OSError):
        for line in path.read_text("utf-8").splitlines():
            with suppress(ValueError, TypeError):
                op, differs = json.loads(line)
                found.append((op, differs))
    return found
