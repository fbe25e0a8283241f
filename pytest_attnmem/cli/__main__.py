"""``python -m pytest_attnmem.cli``: the command ``attnmem``."""

from __future__ import annotations

from . import console

if __name__ == "__main__":
    console()
