"""The least that a simulation does which sees each operator of a program in Python.

:func:`least_in_python` makes the tensors of the program. With an :class:`Account` it counts their
memory too: each storage has a block of the package's own allocator, which it gives back at its end,
and each result has a note. It follows neither devices nor views, checks no argument, plans no
scratch, and computes no value; the gradients are PyTorch's.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_attnmem.allocator.caching import CachingAllocator


class _Held(weakref.ref):  # type: ignore[type-arg]
    __slots__ = ("address", "key")


class Account:
    """Counts the memory of storages, and notes each result."""

    def __init__(self) -> None:
        self._allocator = CachingAllocator(capacity=1 << 40)
        self._held: dict[int, _Held] = {}
        self._notes: list[tuple[int, int]] = []

    def follow(self, tensor: torch.Tensor, nbytes: int) -> None:
        """Allocates a block for a tensor, until its storage ends."""
        storage = tensor.untyped_storage()
        held = _Held(storage, self._ended)
        held.key = storage._cdata
        held.address = self._allocator.malloc(nbytes)
        self._held[held.key] = held
        self._notes.append((held.key, nbytes))

    def _ended(self, held: _Held) -> None:
        self._held.pop(held.key, None)
        self._allocator.free(held.address)


@contextmanager
def least_in_python(account: Account | None = None) -> Iterator[None]:
    """Makes the tensors of a program on ``meta``, and counts their memory for an account."""
    like = _like if account is None else partial(_counted, account)
    with _Ops(like), _Calls(like):
        yield


class _Made(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} passed the mode")


class _Ops(TorchDispatchMode):
    """Makes the tensors that a program on ``meta`` gets.

    A view is made by PyTorch's kernel; another result from the sizes of the last call with such
    arguments.
    """

    def __init__(self, like: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._like = like
        self._known: dict[Any, Any] = {}
        self._views: dict[int, Any] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            view = self._views.get(id(func))
            if view is None:
                name = func._schema.name.removeprefix("aten::")
                view = func.is_view and getattr(torch.Tensor, name, func)
                self._views[id(func)] = view
            if view:
                return _made(_on_meta(view, args, {}))
            key = _key(func, args)
            known = self._known.get(key)
            if known is None:
                out = _on_meta(func, args, kwargs or {})
                if args and out is args[0]:
                    return out
                if type(out) is torch.Tensor:
                    self._known[key] = _layout(out)
                return _made(out)
            return self._like(known)


class _Calls(TorchFunctionMode):
    """Does the same for calls of PyTorch's functions, which need no dispatcher then.

    Calls that record a gradient go on to the dispatcher, which makes the graph.
    """

    def __init__(self, like: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._like = like
        self._known: dict[Any, Any] = {}
        self._others: set[int] = set()
        """Functions that make a view, or change a tensor."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            if id(func) in self._others or torch.is_grad_enabled():
                return func(*args, **(kwargs or {}))
            key = _key(func, args)
            known = None if key is None else self._known.get(key)
            if known is not None:
                with torch._C._DisableTorchDispatch():
                    return self._like(known)
            out = func(*args, **(kwargs or {}))
            if key is None or type(out) is not _Made or out._is_view():
                self._others.add(id(func))
            else:
                self._known[key] = _layout(out)
            return out


def _key(func: Any, args: tuple[Any, ...]) -> Any:
    """Returns what the sizes of a result depend on; None of an assignment to a part."""
    parts = [id(func)]
    for arg in args:
        if issubclass(type(arg), torch.Tensor):
            parts.append(_layout(arg))
        elif type(arg) is tuple and slice in map(type, arg):
            return None
        else:
            parts.append(tuple(arg) if type(arg) is list else arg)
    return tuple(parts)


def _on_meta(func: Any, args: Any, kwargs: Any) -> Any:
    torch._C._set_meta_in_tls_dispatch_include(True)
    try:
        return func(*args, **kwargs)
    finally:
        torch._C._set_meta_in_tls_dispatch_include(False)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype


def _like(known: tuple[Any, ...]) -> Any:
    shape, stride, dtype = known
    return _made(torch.empty_strided(shape, stride, dtype=dtype, device="meta"))


def _counted(account: Account, known: tuple[Any, ...]) -> Any:
    shape, stride, dtype = known
    out = _made(torch.empty_strided(shape, stride, dtype=dtype, device="meta"))
    nbytes = dtype.itemsize
    for size in shape:
        nbytes *= size
    if nbytes:
        account.follow(out, nbytes)
    return out


def _made(out: Any) -> Any:
    if type(out) in (list, tuple):
        return [*map(_made, out)]
    return torch.Tensor._make_subclass(_Made, out)
