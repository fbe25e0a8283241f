"""Reports: a summary as text of one kind or another.

Imported by the plugin in every session, so nothing heavy is imported before a report is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import AttnMemError

if TYPE_CHECKING:
    from .summary import Summary

#: The files that a session can be written as; each is a module here, and an option.
KINDS: Final = ("json", "csv", "markdown", "html", "trend")


def render(kind: str, summary: Summary, environment: Mapping[str, Any]) -> str:
    """The file of that kind, as text."""
    renderer: Any = import_module(f".{kind}", __name__)
    return str(renderer.render(summary, environment))


def write(path: Path, text: str) -> None:
    """Write a file that was asked for; ``-`` is standard output.

    Raises:
        AttnMemError: it cannot be written.
    """
    data = text.encode("utf-8", "backslashreplace")  # as JSON escapes them
    try:
        if path == Path("-"):
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
        else:
            path.write_bytes(data)
    except OSError as error:
        if path == Path("-"):
            raise
        raise AttnMemError(f"cannot write {path}: {error.strerror}") from error
