"""Sends rows as text with the reports of tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import AttnMemError

if TYPE_CHECKING:
    from ..report.record import Record


#: The name of a row among a report's user properties, which travel to the controller and JUnit.
PROPERTY = "attnmem"


#: The name of a row that counts only if the process crashes in the test.
CRASH_PROPERTY = "attnmem_if_it_dies"


def has_rows(properties: list[tuple[str, object]]) -> bool:
    """Returns True if the user properties of a report or a test have a row."""
    return any(name == PROPERTY for name, _ in properties)


class RowTexts:
    """Converts rows to JSON text and back; a row of this process is not parsed again."""

    def __init__(self) -> None:
        self._rows: dict[str, Record] = {}

    def write(self, row: Record) -> str:
        """Returns the text of a row."""
        from ..report.record import to_dict

        text = json.dumps(to_dict(row))
        self._rows[text] = row
        return text

    def forget(self) -> None:
        """Forgets the rows of earlier tests."""
        self._rows.clear()

    def read(
        self, properties: list[tuple[str, object]], called: str = PROPERTY
    ) -> Iterator[Record]:
        """Yields the rows among a report's user properties."""
        from ..report.record import from_dict

        for name, value in properties:
            if name == called:
                try:
                    text = str(value)
                    yield (
                        self._rows.pop(text) if text in self._rows else from_dict(json.loads(text))
                    )
                except (AttnMemError, ValueError):  # of another plugin, by the same name
                    continue


def without_timelines(properties: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Returns the properties without timelines, for reports that do not draw them, as JUnit."""
    return [
        (name, _without_timeline(value) if name == PROPERTY else value)
        for name, value in properties
    ]


def _without_timeline(text: Any) -> Any:
    try:
        data = json.loads(text)
        ours = data["nodeid"] and data["timeline"]
    except (KeyError, TypeError, ValueError):  # of another plugin, by the same name
        return text
    return json.dumps({**data, "timeline": None}) if ours else text
