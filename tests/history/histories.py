"""Histories of one row, written by hand."""

from pytest_attnmem.history.project_history import Measured, Point, ProjectHistory

ROW = "t.py::a"


def point(name: str, value: int | None, *parents: str, date: str = "2026-01-01") -> Point:
    """Returns a commit; without bytes, it is a gap."""
    measured = Measured(gaps={"": "ImportError: x"}) if value is None else Measured({ROW: value})
    return Point(name, parents, "Ada", date, f"subject of {name}", measured, f"tree of {name}")


def chain(*values: int | None) -> list[Point]:
    """Returns commits ``0``, ``1``, … in a row, a day apart."""
    return [
        point(str(n), value, *([str(n - 1)] if n else []), date=f"2026-01-{n + 1:02}")
        for n, value in enumerate(values)
    ]


def history(points: list[Point], **changes) -> ProjectHistory:
    """Returns the history of commits."""
    facts = {"backend": "simulated:H100", "torch": "2.13.0", "tests": "t.py"}
    return ProjectHistory(**{"name": "net", "facts": facts, "points": tuple(points), **changes})
