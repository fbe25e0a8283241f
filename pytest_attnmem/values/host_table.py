"""The equivalents of operators on the CPU, found in the modules of the folder ``host_operators``.

``OPERATORS`` of a module has its functions by operator, as ``aten.cudnn_batch_norm.default``. A
function takes the arguments of the operator by name, with defaults filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, TypeAlias

import torch

from . import host_operators
from .op_traits import Operator

Equivalent: TypeAlias = Callable[[SimpleNamespace], Any]
Computed: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]


def equivalent(func: Operator) -> Computed | None:
    """Returns what computes an operator in its place on the CPU; None if it computes itself.

    An overload with ``out=`` is computed by its functional overload and written into its targets.
    """
    packet, _, overload = str(func).rpartition(".")
    functional = "default" if overload == "out" else overload.removesuffix("_out")
    function = operators().get(f"{packet}.{functional}")
    if function is None:
        return None
    if functional != overload:
        return partial(_into_targets, func, function)
    return lambda args, kwargs: function(arguments(func, args, kwargs))


@cache
def operators() -> Mapping[str, Equivalent]:
    """Returns the functions of all modules of the folder by operator."""
    return collect(
        import_module(f"{host_operators.__name__}.{module.name}")
        for module in iter_modules(host_operators.__path__)  # sorted by name
    )


def arguments(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> SimpleNamespace:
    """Returns all arguments of a call by name, with the defaults of the operator's schema."""
    named: dict[str, Any] = {}
    for position, expected in enumerate(func._schema.arguments):
        if position < len(args) and not expected.kwarg_only:
            named[expected.name] = args[position]
        else:
            named[expected.name] = kwargs.get(expected.name, expected.default_value)
    return SimpleNamespace(**named)


def collect(modules: Iterable[ModuleType]) -> Mapping[str, Equivalent]:
    """Returns the equivalents of all modules by operator.

    Raises:
        ValueError: an operator has two equivalents.
    """
    found: dict[str, Equivalent] = {}
    places: dict[str, str] = {}
    for module in modules:
        for name, function in getattr(module, "OPERATORS", {}).items():
            if name in found:
                raise ValueError(
                    f"{name} is computed in {places[name]} and in {module.__name__}; keep one"
                )
            found[name], places[name] = function, module.__name__
    return MappingProxyType(found)


def _into_targets(
    func: Operator, function: Equivalent, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    found = function(arguments(func, args, kwargs))
    names = [argument.name for argument in func._schema.arguments if argument.is_out]
    targets = [kwargs[name] for name in names]
    for target, value in zip(targets, found if isinstance(found, tuple) else (found,), strict=True):
        if target.shape != value.shape:
            target.resize_(value.shape)
        target.copy_(value)
    return targets[0] if isinstance(found, torch.Tensor) else tuple(targets)
