"""A page as one file: its parts in place, allowed by their hashes, and its data as JSON."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from string import Template


def document(
    template: str, styles: Sequence[str], scripts: Sequence[str], data: object, **texts: str
) -> str:
    """Returns the page of a template, which loads nothing else; all of ``data`` is text in it.

    ``texts`` are further parts of the template, in HTML.
    """
    style = "\n".join(_part(f"{name}.css") for name in styles)
    script = "\n".join(_part(f"{name}.js") for name in scripts)
    return Template(_part(f"{template}.html")).substitute(
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_as_json(data),
        **texts,
    )


def _part(name: str) -> str:
    return (files(__package__) / "page" / name).read_text("utf-8")


def _hash(text: str) -> str:
    """Returns the hash that lets the page run this text, and no other text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _as_json(data: object) -> str:
    """Returns JSON in ASCII that no browser reads as markup."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
