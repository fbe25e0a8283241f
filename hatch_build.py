"""The README for the package index, where a link to a file of the repository leads nowhere."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"\]\((?!https?:|#)")


class Readme(MetadataHookInterface):
    """Makes the README's links to files absolute."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets the readme of the project."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        files = f"{metadata['urls']['Source']}/blob/v{metadata['version']}/"
        text = _LINK.sub(f"]({files}", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
