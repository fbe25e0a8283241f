"""Views of simulated tensors, which PyTorch's own kernels make on ``meta`` at once.

A view allocates nothing and writes no values, so that neither the memory nor the tape asks for it.
A backward pass of an ``einsum`` makes some 40 of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from .fake_tensor import CUDA, IMPLICIT_CUDA, SimulatedTensor
from .storage_bounds import outside

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode

_aten = torch.ops.aten
#: Operators with one result, a view of their first argument, which is their only tensor.
VIEWS: Final = (
    *(_aten.alias.default, _aten.detach.default, _aten.expand.default, _aten.permute.default),
    *(_aten.transpose.int, _aten.t.default, _aten.slice.Tensor, _aten.select.int),
    *(_aten.squeeze.default, _aten.squeeze.dim, _aten.squeeze.dims, _aten.unsqueeze.default),
    *(_aten.view.default, _aten._unsafe_view.default, _aten.unfold.default),
    *(_aten.diagonal.default, _aten.as_strided.default),
)
_DisableTorchDispatch = torch._C._DisableTorchDispatch
_DisableTorchFunction = torch._C.DisableTorchFunction
_see_meta = torch._C._set_meta_in_tls_dispatch_include
_in_inference_mode = torch.is_inference_mode_enabled
_graph_task = torch._C._current_graph_task_id


class DirectViews:
    """The views of one fake mode."""

    def __init__(self, mode: SimulatedFakeMode) -> None:
        self._mode = mode
        # By id: the hash of an operator is slow. A method parses its arguments faster.
        self._kernels: dict[int, Callable[..., Any]] = {id(op): _method(op) for op in VIEWS}

    def make(self, func: Any, args: tuple[Any, ...]) -> Any:
        """Returns the view; None if the operator is none, or there is more to ask about."""
        kernel = self._kernels.get(id(func))
        if kernel is None:
            return None
        source, mode = args[0], self._mode
        if type(source) is not SimulatedTensor or not mode.is_observed or mode.observer.traced:
            return None
        with _DisableTorchFunction():
            own = source.__dict__
            device = own["_fake_device"]
            if (
                own["fake_mode"] is not mode
                or own["constant"] is not None
                or not (device is CUDA or device is IMPLICIT_CUDA)
                or _in_inference_mode()
                or source.dtype.is_complex
                or source.is_neg()
                or (mode.op_cache.has_zeros and source._is_zerotensor())
            ):
                return None
            with _DisableTorchDispatch():
                _see_meta(True)
                try:
                    elem = kernel(*args)
                except (RuntimeError, IndexError, TypeError):
                    return None  # the same error comes again, with what a program sees of it
                finally:
                    _see_meta(False)
                made = mode.maker.make(elem, device)
            if _graph_task() != -1:
                mode.autograd_calls.note(made)
        return made


def _as_strided(x: Any, *where: Any) -> Any:
    if text := outside(x, *where):
        raise RuntimeError(text)
    return torch.as_strided(x, *where)


def _method(op: Any) -> Callable[..., Any]:
    if op is _aten.as_strided.default:
        return _as_strided  # ``meta`` does not ask if the elements are in the storage
    name = op._schema.name.removeprefix("aten::")
    name = "view" if name == "_unsafe_view" else name  # whose kernel on ``meta`` is Python code
    return getattr(torch.Tensor, name, op)  # type: ignore[no-any-return]
