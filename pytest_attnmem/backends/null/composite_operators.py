"""Which operators are noted: not those that call others, which are, or that change no value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import torch

from ...torch_releases import minor_version
from ...values.dispatcher import has_kernel, operator_names, takes_numbers
from .jit import NUMBERS

#: PyTorch's operators outside aten that launch a kernel of their own, and have one on the CPU.
_OWN_KERNELS: Final = frozenset({"fsdp::chunk_cat_mixed_dtype"})
#: Operators whose kernels on CUDA call others, which are noted by themselves.
_CALLERS: Final = frozenset({"aten::_cudnn_rnn_flatten_weight"})
_COMPOSITE: Final = torch.DispatchKey.CompositeImplicitAutograd


class CompositeOperators:
    """The operators that need no note, found by their kernels."""

    def __init__(self) -> None:
        self._known: dict[int, bool] = {}

    def includes(self, func: Any) -> bool:
        """Returns True if the operators that it calls are noted by themselves.

        A composite is noted in inference mode; elsewhere autograd takes it apart before. One with
        a kernel on CUDA too, as ``silu_backward``, calls no others there.
        """
        found = self._known.get(id(func))
        if found is None:
            name = func._schema.name
            composite = has_kernel(func.name(), _COMPOSITE.name) and not has_kernel(
                func.name(), "CUDA"
            )
            own = name.startswith("aten::") or name in _OWN_KERNELS
            found = self._known[id(func)] = composite or not own or name in _CALLERS
        return found

    def call(self, func: Any, keys: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Calls an operator below ``keys``.

        C++ code passes a number as a tensor, which only the composite kernel takes from Python.
        """
        numbers = func.namespace == "aten" and not NUMBERS.isdisjoint(map(type, args))
        if numbers and takes_numbers(func._opname):
            return func._op_dk(_COMPOSITE, *args, **kwargs)
        return func.redispatch(keys, *args, **kwargs)


def without_values() -> Iterator[str]:
    """Yields the operators that change no value: they make views, or give a tensor a storage.

    C++ code that makes a parameter of a view requires that no Python code has seen the view.
    """
    known = set(operator_names())
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, packet = schema.name.partition("::")
        name = f"{packet}.{schema.overload_name}" if schema.overload_name else packet
        if namespace != "aten" or packet == "lift_fresh" or f"aten::{name}" not in known:
            continue
        aliases = [one.alias_info for one in schema.arguments if one.alias_info is not None]
        view = bool(aliases) and not any(alias.is_write for alias in aliases)
        if view or packet == "set_":
            yield name


def note_operators(library: Any, noted: Callable[..., Any], key: str) -> list[Any]:
    """Makes every operator come to ``noted(keys, operator, …)`` at a dispatch key.

    Returns what the caller keeps for as long. Before 2.13, PyTorch (python_dispatch.cpp) finds no
    fallback of Python while a ``TorchDispatchMode`` is active, so the operators of aten and c10d
    come one by one; others go on below.
    """
    if minor_version(torch.__version__) >= (2, 13):
        library.fallback(noted, key, with_keyset=True)
        return [library]
    library.m.fallback_fallthrough(key)
    libraries = {space: torch.library.Library(space, "IMPL") for space in ("aten", "c10d")}
    skipped = set(without_values())
    for full in operator_names():
        space, _, name = full.partition("::")
        if space in libraries and name not in skipped:
            packet, _, overload = name.partition(".")
            func = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
            one: Any = libraries[space]
            one.m.impl(name, key, partial(_with_operator, noted, func), True)
    return [*libraries.values()]


def _with_operator(noted: Any, func: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
    return noted(keys, func, *args, **kwargs)
