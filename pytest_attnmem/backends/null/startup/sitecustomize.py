"""Python runs this file first in each process that a program on the null device starts.

``program.py`` has it found, by ``PYTHONPATH``. It imports nothing of this package before
the process imports torch.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _AfterTorch:
    """A finder of modules that prepares the process as soon as it has imported torch."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Returns torch as the other finders find it, and nothing else."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        found = find_spec(name)
        if found is not None and found.loader is not None:
            loader: Any = found.loader
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                with suppress(ImportError):  # this package is not in the process's environment
                    from pytest_attnmem.backends.null.program import begin

                    begin()

            loader.exec_module = exec_module
        return found


def _run_the_users_own() -> None:
    """Imports the ``sitecustomize`` that this one stands before."""
    folder = __file__.rpartition("/")[0]
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    own = sys.modules.pop(__name__)
    if find_spec(__name__) is None:
        sys.modules[__name__] = own
    else:
        import_module(__name__)


sys.meta_path.insert(0, _AfterTorch())
_run_the_users_own()
