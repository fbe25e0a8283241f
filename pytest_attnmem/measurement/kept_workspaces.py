"""The switch that makes PyTorch keep the workspaces of its libraries outside windows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Final

from ..torch_releases import Version

#: The first version in which each product allocates the workspace of its library and frees it
#: (pytorch#194311), unless the variable is ``1`` when the process runs its first product.
_EAGER: Final[Version] = (2, 15)
_VARIABLE: Final = "TORCH_CUBLAS_WORKSPACE_CACHE"


def are_kept(version: Version, environ: Mapping[str, str] = os.environ) -> bool:
    """Returns True if that version of PyTorch keeps workspaces in this environment."""
    return version < _EAGER or environ.get(_VARIABLE) == "1"


@contextmanager
def kept_workspaces(environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Makes PyTorch keep workspaces for the body, unless the environment decides already."""
    if _VARIABLE in environ:
        yield
        return
    environ[_VARIABLE] = "1"
    try:
        yield
    finally:
        environ.pop(_VARIABLE, None)
