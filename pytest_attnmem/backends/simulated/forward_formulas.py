"""Formulas of forward-mode gradients that C++ code has two of: for plain tensors, for subclasses.

With dual numbers a device runs the formulas for plain tensors, which work in place. The simulation
knows where those of a softmax do; where it does not know, nothing is enforced. In transforms of
``torch.func`` a device runs the formulas for subclasses too. Source:
torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.autograd import forward_ad
from torch.library import Library

from .backward_formulas import WITH_FORMULAS
from .op_kinds import in_autograd, in_cpp, is_composite
from .patched import patched
from .transforms import is_transformed

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode

_aten = torch.ops.aten

#: The first product of their formulas, ``logsumexp_jvp``, is in place.
_SOFTMAX: Final = (
    *(_aten.logsumexp.default, _aten._softmax.default, _aten._log_softmax.default),
    _aten._safe_softmax.default,
)
#: Their formulas work in place at places that are not known.
_UNKNOWN: Final = (
    *(_aten.native_layer_norm.default, _aten.native_group_norm.default),
    *(_aten.native_batch_norm.default, _aten._native_batch_norm_legit.default),
    _aten.cudnn_batch_norm.default,
    *(_aten._native_batch_norm_legit.no_stats, _aten._batch_norm_with_update.default),
    *(_aten._fused_rms_norm.default, _aten.logcumsumexp.default, _aten.linalg_vector_norm.default),
    *(_aten._linalg_det.default, _aten._linalg_slogdet.default),
    *(_aten._linalg_solve_ex.default, _aten.linalg_inv_ex.default),
    *(_aten.linalg_lu_solve.default,),
    *(_aten.norm.Scalar, _aten.norm.ScalarOpt_dim, _aten.norm.ScalarOpt_dtype),
    *(_aten.norm.ScalarOpt_dim_dtype, _aten.masked_fill.Tensor),
    *(_aten.prod.default, _aten.prod.dim_int, _aten.hinge_embedding_loss.default),
    *(_aten.binary_cross_entropy.default, _aten.binary_cross_entropy_with_logits.default),
)


class ForwardFormulas:
    """The formulas of one simulation, replaced while a program has levels of dual numbers."""

    def __init__(
        self, mark_unknown: Callable[[str], None], mode: Callable[[], SimulatedFakeMode]
    ) -> None:
        self._mark_unknown = mark_unknown
        self._mode = mode
        self._library: Library | None = None

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Replaces the formulas in each outermost level of the body."""
        enter: Any = forward_ad.enter_dual_level
        leave: Any = forward_ad.exit_dual_level

        def entered() -> Any:
            level = enter()
            self._begin()
            return level

        def left(*, level: int | None = None) -> None:
            leave(level=level)
            if forward_ad._current_level < 0:
                self._end()

        names = {"enter_dual_level": entered, "exit_dual_level": left}
        with patched({(forward_ad, name): function for name, function in names.items()}):
            if forward_ad._current_level >= 0:
                self._begin()
            try:
                yield
            finally:
                self._end()

    def _begin(self) -> None:
        if self._library is None:
            self._library = self._installed()

    def _end(self) -> None:
        library, self._library = self._library, None
        if library is not None:
            library._destroy()

    def _installed(self) -> Library:
        library = Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about kernels that are overridden on purpose
            for ops, run in ((_SOFTMAX, self._of_softmax), (_UNKNOWN, self._unknown)):
                for op in ops:
                    library.impl(op.name().removeprefix("aten::"), run(op), "AutogradCUDA")
        return library

    def _of_softmax(self, op: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if not is_dual(args):
                return in_autograd(op, *args, **kwargs)
            with self._mode().in_place_of((_aten.mul.Tensor,), once=True):
                return in_autograd(op, *args, **kwargs)

        return run

    def _unknown(self, op: Any) -> Callable[..., Any]:
        in_general = partial(in_cpp if is_composite(op) else in_autograd, op)
        otherwise = WITH_FORMULAS.get(op, in_general)

        def run(*args: Any, **kwargs: Any) -> Any:
            if is_dual(args):
                self._mark_unknown(of_duals(op))
                return in_general(*args, **kwargs)
            return otherwise(*args, **kwargs)

        return run


def of_duals(op: Any) -> str:
    """Returns the name of an operator whose formula for dual numbers is not known."""
    return f"the forward-mode gradient of {op}"


def is_dual(args: tuple[Any, ...]) -> bool:
    """Returns True if one of the tensors has a tangent, outside of transforms."""
    if forward_ad._current_level < 0 or is_transformed():
        return False
    with torch._C.DisableTorchFunction():
        return any(
            torch._VF._unpack_dual(arg, level=0)[1] is not None
            for arg in args
            if isinstance(arg, torch.Tensor)
        )
