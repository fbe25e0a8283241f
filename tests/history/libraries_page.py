"""Writes the histories of libraries into ``docs/evidence/case-studies.md``.

``python -m tests.history.libraries_page build/histories/*.json`` first puts what the files say into
``libraries.json``; what a person found out about a step is in ``libraries_notes.json``.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from pytest_attnmem.history.project_history import ProjectHistory, Step, read_history
from pytest_attnmem.history.text import reasons, row_gaps
from pytest_attnmem.units import format_size

from .libraries import LIBRARIES, ROOT

PAGE = ROOT / "docs" / "evidence" / "case-studies.md"
DATA = Path(__file__).with_name("libraries.json")
NOTES = Path(__file__).with_name("libraries_notes.json")
PART = re.compile(r"(<!-- generated: histories -->\n).*?(<!-- /generated -->)", re.DOTALL)
#: A step counts as large from this share on.
LARGE = 0.1
FOLDERS = re.compile(r"/\S*/attnmem-\w+/[^/\s]+/")


def condensed(history: ProjectHistory, seconds: int) -> dict[str, Any]:
    """Returns what the page needs of a history."""
    gaps = [[count, FOLDERS.sub("", why)] for why, count in reasons(history)]
    large: dict[str, dict[str, Any]] = {}
    for step in history.steps:
        if step.before and abs(step.delta) >= LARGE * step.before:
            found = large.setdefault(step.sha, _commit(step, history))
            found["rows"][step.row] = [step.before, step.after, step.is_confirmed]
    return {
        "facts": dict(history.facts),
        "commits": len(history.points),
        "measured": sum(bool(point.measured.values) for point in history.points),
        "trees": len({point.tree for point in history.points}),
        "cpu_s": seconds,
        "gaps": gaps,
        "row_gaps": len(row_gaps(history)),
        "used": history.used,
        "steps": len(history.steps),
        "confirmed": sum(step.is_confirmed for step in history.steps),
        "newest": history.points[-1].short,
        "large": [*large.values()],
    }


def _commit(step: Step, history: ProjectHistory) -> dict[str, Any]:
    point = history.point(step.sha)
    cause = step.cause
    tensors = () if cause is None else cause.tensors
    most = max(
        tensors, key=lambda one: one.delta_bytes * (1 if step.delta > 0 else -1), default=None
    )
    end = history.point(step.ended_by) if step.ended_by else None
    days = (date.fromisoformat(end.date) - date.fromisoformat(point.date)).days if end else None
    return {
        "sha": point.short,
        "date": point.date,
        "subject": point.subject[:100],
        "tensor": " ".join(most.text.split()) if most else "",
        "holder": most.holder if most else "",
        "ended_by": end.short if end else "",
        "days": days,
        "gaps": len(step.gaps),
        "rows": {},
    }


def rows() -> Iterator[str]:
    """Yields the lines of the page's part."""
    data = json.loads(DATA.read_text("utf-8"))
    notes = json.loads(NOTES.read_text("utf-8"))
    whole = Counter()
    heads = ("library", "program", "commits", "measured", "steps", "confirmed", "of 10 % or more")
    yield f"| {' | '.join(heads)} | CPU s a commit |"
    yield "|---|---|---|---|---|---|---|---|"
    for library in LIBRARIES:
        if library.name not in data:
            continue
        one = data[library.name]
        for name in ("commits", "measured", "steps", "confirmed"):
            whole[name] += one[name]
        whole["large"] += len(one["large"])
        link = f"[{library.name}](https://github.com/{library.repository})"
        each = one["cpu_s"] / max(one["commits"], 1)
        yield (
            f"| {link} | {one['facts']['tests']}, {one['facts']['backend']} |"
            f" {_which(one)} |"
            f" {one['measured']} | {one['steps']} | {one['confirmed']} | {len(one['large'])} |"
            f" {each:.1f} |"
        )
    sums = " | ".join(str(whole[name]) for name in ("commits", "measured", "steps", "confirmed"))
    yield f"| together | | {sums} | {whole['large']} | |"
    for library in LIBRARIES:
        one = data.get(library.name)
        if one and one["large"]:
            yield from ("", f"### {library.name}", "")
            if text := notes.get(library.name, {}).get(""):
                yield from (text, "")
            yield "| commit | its subject | rows | most of it | lasted |"
            yield "|---|---|---|---|---|"
            for step in one["large"]:
                yield _line(library.repository, step, notes.get(library.name, {}))


def _which(one: dict[str, Any]) -> str:
    """Returns the number of commits; those of a part of the history are the newest ones."""
    part = ".." in one["facts"].get("commits", "")
    return f"the newest {one['commits']}" if part else str(one["commits"])


def _line(repository: str, step: dict[str, Any], notes: dict[str, str]) -> str:
    link = (
        f"[{step['sha'][:7]}](https://github.com/{repository}/commit/{step['sha']}) {step['date']}"
    )
    changes = "<br>".join(_change(row, *sizes) for row, sizes in step["rows"].items())
    note = notes.get(step["sha"][:7], "")
    held = f", held by `{step['holder']}`" if step["holder"] else ""
    cause = f"{note}<br>`{step['tensor']}`{held}" if note else f"`{step['tensor']}`{held}"
    grew = any(after > before for before, after, _ in step["rows"].values())
    if step["ended_by"]:
        days = f"{step['days']} day{'' if step['days'] == 1 else 's'}"
        lasted = f"{days}, until {step['ended_by'][:7]}"
    else:
        lasted = "still there" if grew else ""
    return f"| {link} | {_escaped(step['subject'])} | {changes} | {cause} | {lasted} |"


def _change(row: str, before: int, after: int, confirmed: bool) -> str:
    share = 100 * (after - before) / before
    doubt = "" if confirmed else ", not confirmed"
    return f"{row}: {format_size(before)} → {format_size(after)} ({share:+.0f} %{doubt})"


def _escaped(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#" else sign for sign in text)


def render(page: str) -> str:
    """Returns the page with its part made anew."""
    return PART.sub(lambda part: "\n".join([part[1], *rows(), "", part[2]]), page)


if __name__ == "__main__":
    known = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    for name in sys.argv[1:]:
        history = read_history(Path(name))
        assert history is not None, name
        seconds = Path(name).with_suffix(".seconds").read_text("utf-8")
        known[Path(name).stem] = condensed(history, int(seconds))
    lines = [f'"{name}": {json.dumps(one, ensure_ascii=False)}' for name, one in known.items()]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    PAGE.write_text(render(PAGE.read_text("utf-8")), "utf-8")
