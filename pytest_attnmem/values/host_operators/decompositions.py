"""Decompositions that the CPU computes by other methods: ATen/native/BatchLinearAlgebra.cpp."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

from ...errors import CannotCompute

aten = torch.ops.aten


def singular_values(call: SimpleNamespace) -> Any:
    """Returns U, S and Vh; the CPU has one method, and CUDA three."""
    return aten._linalg_svd.default(call.A, call.full_matrices, call.compute_uv)


def least_squares(call: SimpleNamespace) -> Any:
    """Returns the solution, residuals, an empty rank and no singular values, as CUDA's method."""
    _finite(call.self)
    return aten.linalg_lstsq.default(call.self, call.b, call.rcond, driver="gels")


def eigenvalues(call: SimpleNamespace) -> Any:
    """Returns the eigenvalues of matrices; LAPACK ends the process if an element is not finite."""
    _finite(call.self)
    return aten._linalg_eigvals.default(call.self)


def _finite(matrices: torch.Tensor) -> None:
    if not matrices.isfinite().all():
        raise CannotCompute("its input has infinities or NaN")


OPERATORS: Final = MappingProxyType(
    {
        "aten._linalg_eigvals.default": eigenvalues,
        "aten._linalg_svd.default": singular_values,
        "aten.linalg_lstsq.default": least_squares,
    }
)
