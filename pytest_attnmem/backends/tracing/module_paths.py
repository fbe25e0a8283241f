"""The paths of modules, as the outermost module that has run names them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from torch.nn import Module

#: Wrappers that keep the wrapped module under a name of their own, which no user wrote:
#: torch.compile, checkpoint_wrapper and FullyShardedDataParallel.
_WRAPPED = frozenset({"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"})


class ModulePaths:
    """Finds the paths of modules, and remembers them.

    A layer that runs alone after its model has run, as a checkpointed layer does in the backward
    pass, keeps the path that the model gives it.
    """

    def __init__(self) -> None:
        self._roots: WeakKeyDictionary[Module, WeakKeyDictionary[Module, str]] = WeakKeyDictionary()

    def of(self, inner: Module, outer: Module) -> str:
        """Returns the path of ``inner``, ``blocks.2.attention``; empty for the outermost module.

        ``outer`` is the outermost module that is running.
        """
        around = [known for known, names in self._roots.items() if outer in names]
        root = max(around, key=lambda known: len(self._roots[known][outer]), default=outer)
        names = self._roots.get(root)
        if names is None or inner not in names:
            names = self._roots[root] = WeakKeyDictionary(
                (module, _plain(path)) for path, module in root.named_modules()
            )
        return names.get(inner, "")


def _plain(path: str) -> str:
    return ".".join(name for name in path.split(".") if name not in _WRAPPED)
