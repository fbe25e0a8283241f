"""Writes the table of faults: ``python tests/faults/page.py``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from faults import FAULTS, KILLS, SESSIONS

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "reliability.md"
BEGIN, END = "<!-- faults -->\n", "<!-- end of faults -->"


def table():
    """Returns a line for each fault, by step."""
    rows = [(one.step, one.what, _said(one)) for one in FAULTS]
    rows += [
        (
            "write",
            one.what,
            f"the file has its {'new' if one.new else 'old'} contents; the next update works, and"
            " removes what was left",
        )
        for one in KILLS
    ]
    rows += [(one.step, one.what, one.outcome) for one in SESSIONS]
    order = ("measure", "judge", "write", "report")
    rows.sort(key=lambda row: order.index(row[0]))
    lines = ["| step | fault | outcome |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {step} | {what} | {out} |" for step, what, out in rows)]) + "\n"


def _said(fault):
    said = fault.says[0].removeprefix("E   ").replace("{folder}/", "")
    if fault.judged:
        return f"exit 1; the tests are judged, and one line says `{said}`"
    return f"exit 1; each test fails with `{said}`, and none is `within`"


def page(text):
    """Returns the page with the table of now."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
