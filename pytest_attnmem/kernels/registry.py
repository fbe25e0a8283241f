"""The table of bundled kernels, collected from the files that declare them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

from ..errors import BudgetError
from ..suggestion import did_you_mean
from ..units import shown
from .kernel import Kernel

_Named = TypeVar("_Named")


def kernels() -> tuple[Kernel, ...]:
    """Returns the rows of all bundled kernels, in the order of their names.

    A file declares its row as ``KERNEL``, or several rows as ``KERNELS``. A file whose name begins
    with an underscore is part of another file's kernel and is not imported: Triton's programs read
    the environment when they are imported.
    """
    package = import_module(__package__)
    rows = (
        row
        for found in iter_modules(package.__path__, f"{package.__name__}.")
        if not found.name.rpartition(".")[2].startswith("_")
        for row in _declared(import_module(found.name))
    )
    return tuple(sorted(rows, key=lambda row: row.name))


def kernel_named(name: str) -> Kernel:
    """Returns the bundled kernel of that name.

    Raises:
        BudgetError: no kernel has the name.
    """
    return find_named(name, {kernel.name: kernel for kernel in kernels()})


def find_named(name: str, known: Mapping[str, _Named]) -> _Named:
    """Returns the kernel of that name among ``known``.

    Raises:
        BudgetError: no kernel has the name; the message lists all names and the closest one.
    """
    if name in known:
        return known[name]
    hint = did_you_mean(str(name), known) or ";"
    raise BudgetError(f"unknown kernel {shown(name)}{hint} expected one of {', '.join(known)}")


def _declared(module: ModuleType) -> tuple[Kernel, ...]:
    rows = getattr(module, "KERNELS", None) or (getattr(module, "KERNEL", None),)
    return tuple(row for row in rows if isinstance(row, Kernel))
