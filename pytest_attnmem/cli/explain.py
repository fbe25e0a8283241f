"""Explain a failure: what it means, a real example, and what to do."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import indent, wrap
from typing import Final

from ..budgets.failure_text import Topic
from ..errors import BudgetError
from ..suggestion import did_you_mean
from .terminal import width

#: The page of the documentation, a section for each topic.
PAGE: Final = Path(__file__).parent / "failures.md"
_TITLE: Final = re.compile(r"^## ([\w-]+): .*$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```.*\n((?:.*\n)*?)```$", re.MULTILINE)
_ROW: Final = re.compile(r"\| `(.+?)` \| (.+) \|")
_WIDEST: Final = 100
_DEEP: Final = " " * 8


def add_arguments(parser: ArgumentParser) -> None:
    """``retained``."""
    parser.epilog = (
        "The last line of a failure names its topic. The topics are the sections of the page"
        " Reading a failure."
    )
    topics = ", ".join(topic.value for topic in Topic)
    parser.add_argument(
        "topic",
        nargs="?",
        default=Topic.PARTS.value,
        metavar="TOPIC",
        help=f"one of {topics} (default: {Topic.PARTS.value}, the lines of a failure)",
    )


def execute(arguments: Namespace) -> int:
    """Prints the section of a topic.

    Raises:
        BudgetError: no section is of this topic.
    """
    known = sections(min(width() or _WIDEST, _WIDEST))
    if arguments.topic not in known:
        close = did_you_mean(arguments.topic, known)
        expected = ", ".join(known)
        raise BudgetError(f"unknown topic {arguments.topic!r}; expected one of {expected}{close}")
    print(known[arguments.topic])
    return 0


def sections(columns: int = _WIDEST) -> Mapping[str, str]:
    """Returns the section of each topic as a terminal of so many columns shows it."""
    page = PAGE.read_text("utf-8")
    starts = [*_TITLE.finditer(page)]
    ends = [*(title.start() for title in starts[1:]), len(page)]
    return {
        title[1]: "\n".join(_plain(page[title.start() + len("## ") : end].strip(), columns))
        for title, end in zip(starts, ends, strict=True)
    }


def _plain(section: str, columns: int) -> Iterator[str]:
    """Yields the lines of a section: wrapped text, and indented blocks and tables."""
    for place, part in enumerate(_BLOCK.split(section)):  # text and blocks in turn
        if place % 2:
            yield from ["", *indent(part, "    ").splitlines(), ""]
            continue
        for number, paragraph in enumerate(part.strip().split("\n\n")):
            if number:
                yield ""
            rows = _ROW.findall(paragraph)
            for term, meaning in rows:
                yield f"    {term}"
                yield from wrap(meaning, columns, initial_indent=_DEEP, subsequent_indent=_DEEP)
            if not rows:
                yield from wrap(paragraph, columns, break_on_hyphens=False)
