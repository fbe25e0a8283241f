"""The HTML page, one file that needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..summary import Summary

OPTION: Final = "write a page with tables and charts"


def render(summary: Summary, environment: Mapping[str, Any]) -> str:
    """Returns the text of the file."""
    from ..html import render

    return render(summary, environment)
