"""How rows travel with the reports of tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import AttnMemError

if TYPE_CHECKING:
    import pytest

    from ..report.record import Record


#: The name of a row among a report's user properties, which travel to the controller and JUnit.
PROPERTY = "attnmem"


#: The name of a row that counts if it is the last that is heard of its test.
CRASH_PROPERTY = "attnmem_if_it_dies"


def own_nodeid(item: pytest.Item) -> str:
    """The test's own, without the group that pytest-xdist writes behind it to share tests out."""
    own = f"{item.parent.nodeid}::{item.name}" if item.parent else item.nodeid
    return own if item.nodeid.startswith(f"{own}@") else item.nodeid


class RowTexts:
    """Rows as JSON text; a row that this process wrote is read without parsing the text."""

    def __init__(self) -> None:
        self._rows: dict[str, Record] = {}

    def write(self, row: Record) -> str:
        """Returns the text of a row."""
        from ..report.record import to_dict

        text = json.dumps(to_dict(row))
        self._rows[text] = row
        return text

    def forget(self) -> None:
        """Forget the rows of earlier tests."""
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
                except (AttnMemError, ValueError):  # somebody else's, of the same name
                    continue


def without_timelines(properties: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The same for those who do not draw: JUnit's file, and the like."""
    return [
        (name, _without_timeline(value) if name == PROPERTY else value)
        for name, value in properties
    ]


def _without_timeline(text: Any) -> Any:
    try:
        data = json.loads(text)
        ours = data["nodeid"] and data["timeline"]
    except (KeyError, TypeError, ValueError):  # somebody else's, of the same name
        return text
    return json.dumps({**data, "timeline": None}) if ours else text
