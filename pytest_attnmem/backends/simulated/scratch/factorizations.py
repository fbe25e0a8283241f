"""Factorizations, solutions with them, and transforms: their scratch is known on a GPU alone.

cuSOLVER, cuBLAS and MAGMA share the factorizations, by the number and the size of the matrices
(aten/src/ATen/native/cuda/linalg), and cuFFT has its plans.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import Final

from .op_plan import AllocationPlan, OpCall, Rule, Unplanned
from .plan_parts import allocate_outputs


def _by_library(name: str, call: OpCall) -> AllocationPlan:
    """Plans the results; the library of that name takes unknown scratch for them."""
    why = f"{name} takes scratch that is known on a GPU alone; keep it out of the window"
    return (*allocate_outputs(call), Unplanned(why))


_FACTORIZATIONS: Final = """
    _linalg_det _linalg_slogdet _linalg_solve_ex linalg_cholesky_ex linalg_inv_ex
    linalg_lu_factor_ex linalg_lu_solve _linalg_eigh _linalg_svd linalg_ldl_factor_ex linalg_eig
    linalg_qr geqrf cholesky cholesky_inverse cholesky_solve linalg_ldl_solve lu_unpack
    linalg_householder_product
"""
_TRANSFORMS: Final = ("_fft_c2c", "_fft_c2r", "_fft_r2c")
TAKES_COMPLEX: Final = True
RULES: Final = MappingProxyType[str, Rule](
    {
        f"aten.{name}.default": partial(_by_library, library)
        for library, names in (("cuSOLVER", _FACTORIZATIONS.split()), ("cuFFT", _TRANSFORMS))
        for name in names
    }
)
