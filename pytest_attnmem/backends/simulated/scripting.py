"""TorchScript, which compiles the functions of PyTorch as installed, and no replacement of one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

#: The functions through which ``torch.jit.script`` and ``torch.jit.trace`` compile (torch/jit).
_COMPILERS = (
    (torch.jit._script, "_script_impl"),
    (torch.jit._recursive, "create_script_module"),
)


def compiled_without_patches(
    left: Callable[[], AbstractContextManager[None]],
) -> dict[tuple[Any, str], Any]:
    """Returns patches, by owner and name, that compile scripts while a session's patches are off.

    ``left`` is the context without them.
    """

    def without_patches(compiler: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            with left():
                return compiler(*args, **kwargs)

        return compile

    return {(owner, name): without_patches(getattr(owner, name)) for owner, name in _COMPILERS}
