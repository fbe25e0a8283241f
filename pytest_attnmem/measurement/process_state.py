"""Keeps what a program may change of its process, and puts it back after another run."""

from __future__ import annotations

import logging
import os
import sys


class ProcessState:
    """The environment, the path of imports, and the handlers of loggers.

    The root logger is left out, because pytest changes its handlers.
    """

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._path = [*sys.path]
        self._handlers = {one: [*one.handlers] for one in _loggers()}

    def put_back(self) -> None:
        """Puts the state back, as it was when it was kept."""
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        if sys.path != self._path:
            sys.path[:] = self._path
        for one in _loggers():
            if one.handlers != (kept := self._handlers.get(one, [])):
                one.handlers[:] = kept


def _loggers() -> list[logging.Logger]:
    found = [*logging.Logger.manager.loggerDict.values()]
    return [one for one in found if isinstance(one, logging.Logger)]
