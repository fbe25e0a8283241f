"""Explain a failure: what it means, a real example, and what to do."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..budgets.failure_topic import Topic
from ..errors import BudgetError
from ..suggestion import did_you_mean

#: The page of the documentation, a section for each topic.
PAGE: Final = Path(__file__).parent / "failures.md"
_TITLE: Final = re.compile(r"^## ([\w-]+): .*$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


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
    known = sections()
    if arguments.topic not in known:
        close = did_you_mean(arguments.topic, known)
        expected = ", ".join(known)
        raise BudgetError(f"unknown topic {arguments.topic!r}; expected one of {expected}{close}")
    print(known[arguments.topic])
    return 0


def sections() -> Mapping[str, str]:
    """Returns the section of each topic as a terminal shows it, with indented blocks."""
    page = PAGE.read_text("utf-8")
    starts = [*_TITLE.finditer(page)]
    ends = [*(title.start() for title in starts[1:]), len(page)]
    return {
        title[1]: _plain(page[title.start() + len("## ") : end])
        for title, end in zip(starts, ends, strict=True)
    }


def _plain(section: str) -> str:
    return _BLOCK.sub(lambda block: re.sub("^(?=.)", "    ", block[2], flags=re.M), section).strip()
