"""The facts of each operator that the fake mode asks for at every call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch

from .dimension_limits import check_of_dimensions
from .in_place_gradients import IF_UNSHARED, ON_FRESH
from .kernel_checks import check_of_kernel
from .layout_rules import OF_STORAGES
from .nondeterministic_calls import CHECKED_BY_META, check_of_algorithms
from .number_checks import check_of_numbers
from .op_kinds import in_cpp, is_composite, is_factory, is_in_python, on_cuda
from .overlaps import check_of_writes
from .shape_checks import check_of_shapes
from .storage_bounds import check_of_bounds
from .written_shapes import writes_pointwise

if TYPE_CHECKING:
    from .known_calls import KnownCalls
    from .observer import Observer

_aten = torch.ops.aten

_NOT_CACHED: Final = frozenset(
    {
        torch.Tag.data_dependent_output,
        torch.Tag.dynamic_output_shape,
        torch.Tag.inplace_view,
    }
)

#: Operators that autograd may call in another way on plain tensors.
_BACKWARD_OPS: Final = frozenset(
    {_aten.add.Tensor, *(func for _, func in (*IF_UNSHARED, *ON_FRESH))}
)

#: Views that begin so many elements after the first of their source, wherever that is.
_RELATIVE: Final = frozenset(
    {
        *(_aten.alias.default, _aten.detach.default, _aten.expand.default, _aten.permute.default),
        *(_aten.transpose.int, _aten.t.default, _aten.slice.Tensor, _aten.select.int),
        *(_aten.squeeze.default, _aten.squeeze.dim, _aten.squeeze.dims, _aten.unsqueeze.default),
        *(_aten.view.default, _aten._unsafe_view.default, _aten._reshape_alias.default),
        *(_aten.unfold.default, _aten.diagonal.default, _aten.split.Tensor, _aten.unbind.int),
        _aten.split_with_sizes.default,
    }
)

#: Give a tensor another storage, and write nothing into it.
_TO_STORAGE: Final = (_aten.set_.source_Storage, _aten.set_.source_Storage_storage_offset)
_CONVOLUTIONS: Final = (_aten.convolution.default, _aten.convolution_backward.default)


class OpFacts:
    """The facts of one operator. The hash of an operator is Python code, so it is taken once."""

    __slots__ = (
        *("_hosts", "backward", "cacheable", "checks", "composite", "factory", "fills", "fits"),
        *("func", "indexes", "kernel_check", "lift", "name", "plain", "reads_cudnn", "refusals"),
        *("relative", "silent", "target", "view"),
    )

    def __init__(
        self, func: Any, replacements: Mapping[Any, Callable[..., Any]], known: KnownCalls
    ) -> None:
        self.func = func
        self.name = str(func)
        """It names the operator in the keys of cached calls."""
        self.composite = replacements.get(func)
        """The function that runs it in terms of other operators; None if it is not composite."""
        if self.composite is None and is_composite(func):
            self.composite = partial(in_cpp, func)
        elif is_in_python(func):
            self.composite = partial(on_cuda, func)
        self.factory = is_factory(func)
        self.lift = func in torch._subclasses.FakeTensorMode.lift_fns
        moves = func in _TO_STORAGE or bool(getattr(func, "is_view", False))
        self.view = moves and not self.lift
        """True if it gives other sizes, or another storage, and no values."""
        self.silent = self.view or func is _aten._local_scalar_dense.default
        """True if it writes no values: it gives a view, or a number."""
        self.relative = func in _RELATIVE
        """True if the offset of a result that shares memory is relative to its source's."""
        self.cacheable = _is_cacheable(func)
        self.indexes = func is _aten.index.Tensor
        """True if the size of the result depends on values where an index is a mask."""
        self.fills = func is _aten.fill_.Tensor
        """True if it copies a value in the memory that it fills."""
        self.fits = writes_pointwise(func)
        """True if it writes into its first argument, whose shape the others must fit."""
        self.target = bool(_targets(func))
        """True if it writes into tensors that are given for its results, ``out=``."""
        self.reads_cudnn = func in _CONVOLUTIONS
        """True if the outcome of a call depends on the settings of cuDNN."""
        self.backward = func in _BACKWARD_OPS
        self.plain = not (self.lift or self.backward)
        """True if a cached call may be repeated without further questions."""
        self.refusals = known.refusals.of(func)
        """The dtypes that CUDA's kernels refuse; None if they take every dtype."""
        self.kernel_check = check_of_kernel(func)
        """What its kernels check; of a composite, nothing else is checked."""
        checks = (
            *(check_of_writes(func), check_of_shapes(func), check_of_numbers(func)),
            *(check_of_algorithms(func), check_of_dimensions(func), check_of_bounds(func)),
            self.kernel_check,
        )
        self.checks = [check for check in checks if check is not None]
        """What CUDA checks before it runs a call and ``meta`` does not."""
        self._hosts = known.hosts.of(func)
        """The tensors of the host that CUDA refuses; None if it takes them, or none is known."""

    def check_devices(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], observer: Observer
    ) -> None:
        """Checks that CUDA takes the tensors of the host among the arguments.

        Raises:
            CannotSimulate: it does not, or nobody knows what it allocates; the observer makes it.
        """
        if self._hosts is not None:
            self._hosts.check(args, kwargs, observer.mixed_devices_error)


class KnownOps:
    """The operators that one fake mode has seen."""

    def __init__(self, replacements: Mapping[Any, Callable[..., Any]], known: KnownCalls) -> None:
        self._replacements = replacements
        self._known = known
        self._facts: dict[int, OpFacts] = {}

    def of(self, func: Any) -> OpFacts:
        """Returns the facts of an operator."""
        found = self._facts.get(id(func))
        if found is None:
            found = self._facts[id(func)] = OpFacts(func, self._replacements, self._known)
        return found


def _targets(func: Any) -> list[tuple[str, str]]:
    """Returns the names and types of the arguments that are given for the results."""
    arguments = func._schema.arguments if isinstance(func, torch._ops.OpOverload) else ()
    return [(one.name, str(one.type)) for one in arguments if one.is_out]


def _is_cacheable(func: Any) -> bool:
    return (
        isinstance(func, torch._ops.OpOverload)
        and func.namespace == "aten"
        and (func is _aten.index.Tensor or not _NOT_CACHED.intersection(func.tags))
        and func not in OF_STORAGES
        and func not in CHECKED_BY_META
        and _targets(func) in ([], [("out", "Tensor")])
        and "lift" not in str(func)
    )
