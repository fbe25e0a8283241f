"""A hook of mkdocs: writes ``llms.txt``, and puts the version of the package below each page.

``llms.txt`` (https://llmstxt.org) lists the pages for programs that read text: their sections,
their addresses, and the first sentence of each.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)
_PROSE = re.compile(r"^(?:\w|\*\*|`(?!``)).*(?:\n.+)*", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Sets what stands below each page."""
    package = Path(__file__).parents[1] / "pytest_attnmem" / "__init__.py"
    (version,) = _VERSION.findall(package.read_text(encoding="utf-8"))
    config.copyright = f"pytest-attnmem {version}"
    return config


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """Keeps the pages for :func:`on_post_build`, which is not given them."""
    config.extra["nav"] = nav
    return nav


def on_post_build(config: Any) -> None:
    """Writes ``llms.txt`` into the site."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    lines += listed(config.extra["nav"].items)
    Path(config.site_dir, "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def listed(items: list[Any]) -> list[str]:
    """Returns a line for each page, and a heading for each section."""
    lines = []
    for item in items:
        if item.is_section:
            lines += ["", f"## {item.title}", "", *listed(item.children)]
        else:
            lines.append(f"- [{item.title}]({item.url}): {first_sentence(item.markdown)}")
    return lines


def first_sentence(markdown: str) -> str:
    """Returns the first sentence of a page, on one line and without links."""
    body = re.sub(r"^---\n.*?^---\n", "", markdown, flags=re.MULTILINE | re.DOTALL)
    found = _PROSE.search(body)
    text = " ".join(found[0].split()) if found else ""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.split(r"(?<=\.) ", text)[0]
