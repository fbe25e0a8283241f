"""The file in the user's cache that keeps what cuDNN's planner answered.

A line has a checksum, the bytes of a workspace, and the question. Lines are only added, each by one
write, so that processes may share a file; a line that is damaged is asked again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from zlib import crc32


class PlanFile:
    """The answers for one cuDNN and one device."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, int]:
        """Returns the answers by question; none if there is no file that can be read."""
        answers: dict[str, int] = {}
        with suppress(OSError):
            for line in self._path.read_text("utf-8", errors="replace").splitlines():
                checksum, _, rest = line.partition(" ")
                if checksum == _checksum(rest):
                    nbytes, _, question = rest.partition(" ")
                    answers[question] = int(nbytes)
        return answers

    def add(self, question: str, nbytes: int) -> None:
        """Adds an answer; does nothing if the folder cannot be written."""
        rest = f"{nbytes} {question}"
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(file, f"{_checksum(rest)} {rest}\n".encode())
            finally:
                os.close(file)


def _checksum(text: str) -> str:
    return f"{crc32(text.encode()):08x}"
