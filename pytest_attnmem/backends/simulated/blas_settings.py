"""A program's settings of its BLAS libraries, which the simulation notices and does not follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .workspaces import Workspaces

_CUBLAS = "cublas_workspace_size"
_CUBLASLT = "cublaslt_workspace_size"
_LIBRARY = "preferred_blas_library"


class BlasSettings:
    """The settings behind ``torch.backends.cuda``: sizes of workspaces, and the preferred library.

    They hold for the process, so a later window has them too. A size that differs from PyTorch's
    own moves workspaces that exist, and a preferred library changes which products take one
    (aten/src/ATen/cuda/CublasHandlePool.cpp, Blas.cpp), so a window with such a setting has a
    ``problem``.
    """

    def __init__(self, workspaces: Workspaces) -> None:
        self._shared = workspaces.shared
        self._own: dict[str, Any] = {
            _CUBLAS: workspaces.cublas,
            _CUBLASLT: workspaces.cublaslt,
            _LIBRARY: torch._C._BlasBackend.Cublas,
        }
        library = torch._C._get_blas_preferred_backend()
        self._now = {**self._own, _LIBRARY: library}
        self._problem: str | None = None

    def begin(self) -> None:
        """Begins a window."""
        self._problem = None
        for name, value in self._now.items():
            self._set(name, value)

    @property
    def problem(self) -> str | None:
        """The setting of this window that is not followed; None if there was none."""
        return self._problem

    def replacements(self) -> dict[tuple[Any, str], Callable[..., Any]]:
        """Returns patches of ``torch._C``, whose build without CUDA has none of these settings."""
        return {
            (torch._C, "_cuda_getCublasWorkspaceSize"): lambda: self._now[_CUBLAS],
            (torch._C, "_cuda_setCublasWorkspaceSize"): lambda size: self._set(_CUBLAS, size),
            (torch._C, "_cuda_resetCublasWorkspaceSize"): lambda: self._reset(_CUBLAS),
            (torch._C, "_cuda_getCublasLtWorkspaceSize"): self._cublaslt,
            (torch._C, "_cuda_setCublasLtWorkspaceSize"): lambda size: self._set(_CUBLASLT, size),
            (torch._C, "_cuda_resetCublasLtWorkspaceSize"): lambda: self._reset(_CUBLASLT),
            (torch._C, "_get_blas_preferred_backend"): lambda: self._now[_LIBRARY],
            (torch._C, "_set_blas_preferred_backend"): self._prefer,
        }

    def _cublaslt(self) -> int:
        asked: int = self._now[_CUBLASLT]
        return min(asked, self._now[_CUBLAS]) if self._shared else asked

    def _prefer(self, library: Any) -> None:
        default = library == torch._C._BlasBackend.Default
        self._set(_LIBRARY, self._own[_LIBRARY] if default else library)

    def _reset(self, name: str) -> None:
        self._set(name, self._own[name])

    def _set(self, name: str, value: Any) -> None:
        self._now[name] = value
        if value != self._own[name] and self._problem is None:
            shown = getattr(value, "name", value)
            self._problem = (
                f"torch.backends.cuda.{name} is {shown}, and the simulation follows PyTorch's own"
                f" setting only, {getattr(self._own[name], 'name', self._own[name])}; backend null"
                " or cuda measures it"
            )
