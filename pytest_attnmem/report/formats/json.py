"""The JSON file, with everything that was measured, for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..summary import Summary


def render(summary: Summary, environment: Mapping[str, Any]) -> str:
    """Returns the text of the file."""
    from ..json import render

    return render(summary, environment)
