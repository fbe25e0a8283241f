"""One noted operator of the device, computed on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

from ..errors import CannotCompute, first_line
from .dispatcher import dispatching
from .host_table import equivalent
from .notes import leaves, mapped
from .op_traits import Operator, given, written

#: The dtypes that some kernels of the CPU lack, and the one that holds each of their values.
WIDER = MappingProxyType(
    {
        torch.float16: torch.float32,
        torch.bfloat16: torch.float32,
        torch.float8_e4m3fn: torch.float32,
        torch.float8_e5m2: torch.float32,
        torch.float8_e4m3fnuz: torch.float32,
        torch.float8_e5m2fnuz: torch.float32,
        torch.complex32: torch.complex64,
    }
)

#: The state of the dispatcher in a thread that has just started, c10/core/impl/LocalDispatchKeySet.
INCLUDED: Final = torch.DispatchKeySet(torch.DispatchKey.BackendSelect).add(
    torch.DispatchKey.ADInplaceOrView
)
EXCLUDED: Final = torch.DispatchKeySet(torch.DispatchKey.AutocastCPU).add(
    torch.DispatchKey.AutocastCUDA
)


def compute(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Returns what an operator returns on the device, computed on the CPU.

    The outputs are as many as on the device, of the same shapes and dtypes, and None where they
    are undefined there; strides may differ. Targets of in-place operators are written in place.
    Autograd, autocast and the active modes of Python take no part. Random numbers come from the
    CPU's default generator.

    Args:
        func: the operator as it was dispatched.
        args: its arguments, with a CPU tensor in the place of each tensor of the device.
        kwargs: the same by name; a device is replaced by the CPU, a generator by the default one.

    Raises:
        CannotCompute: the CPU has no kernel for it, or refuses the arguments.
        UnknownValue: it stands for a kernel whose result nobody can know.
    """
    with pristine_dispatch():
        return compute_there(func, args, kwargs)


def compute_there(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Does what ``compute`` does, inside ``pristine_dispatch``, which many operators may share."""
    args = _on_the_host(args)
    named = {name: _on_the_host(value) for name, value in kwargs.items()}
    named.pop("pin_memory", None)
    instead = equivalent(func)
    try:
        if instead is not None:
            return instead(args, named)
        return _by_the_kernel(func, args, named)
    except CannotCompute as error:
        raise CannotCompute(f"{func}: {error}") from error
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
        raise CannotCompute(f"{func}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    line = first_line(error)
    if line.startswith("Could not run"):
        return "it has a kernel on CUDA alone"
    return f"the CPU answers: {line}"


def _on_the_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, list | tuple):
        return type(value)([_on_the_host(one) for one in value])
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return None if isinstance(value, torch.Generator) else value


@contextlib.contextmanager
def pristine_dispatch() -> Iterator[None]:
    """Dispatches as a program without modes, autocast, inference mode or functorch does."""
    with (
        torch.DisableTorchFunction(),  # first: a mode of functions sees the next ones enter
        torch.inference_mode(False),
        torch.no_grad(),
        dispatching(INCLUDED, EXCLUDED),
    ):
        yield


def _by_the_kernel(func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return func(*args, **kwargs)
    except (RuntimeError, NotImplementedError):
        # A variable for the error would keep the frames of the program alive, with their tensors.
        if not _narrow(args, kwargs):
            raise
        with contextlib.suppress(RuntimeError, NotImplementedError):  # it was not the dtype
            return _widened(func, args, kwargs)
        raise


def _narrow(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    return [
        leaf
        for leaf in leaves((args, kwargs))
        if isinstance(leaf, torch.Tensor) and leaf.dtype in WIDER
    ]


def _widened(func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns what an operator computes in wider dtypes, rounded to the dtypes that it has."""
    narrow = _narrow(args, kwargs)
    dtypes = iter(_dtypes(func, args, kwargs))
    wide = {id(tensor): tensor.to(WIDER[tensor.dtype]) for tensor in narrow}
    origin = {id(wide[id(tensor)]): tensor for tensor in narrow}
    wide_args, wide_kwargs = mapped(lambda leaf: wide.get(id(leaf), leaf), (args, kwargs))
    if wide_kwargs.get("dtype") in WIDER:
        wide_kwargs["dtype"] = WIDER[wide_kwargs["dtype"]]
    found = func(*wide_args, **wide_kwargs)
    for target in leaves(given(written(func), args, kwargs)):
        if id(target) in wide:
            target.copy_(wide[id(target)])

    def rounded(leaf: object) -> object:
        dtype = next(dtypes, None)
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if dtype is None and leaf.dtype == WIDER[narrow[0].dtype]:
            dtype = narrow[0].dtype
        return origin.get(id(leaf), leaf if dtype is None else leaf.to(dtype))

    return mapped(rounded, found)


def _dtypes(
    func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[torch.dtype | None]:
    """Returns the dtypes of the outputs on meta tensors; nothing if meta tensors have none."""
    meta_args, meta_kwargs = mapped(_on_meta, (args, kwargs))
    try:
        found = func(*meta_args, **meta_kwargs)
    except (RuntimeError, NotImplementedError):
        return []
    return [getattr(leaf, "dtype", None) for leaf in leaves(found)]


def _on_meta(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    return torch.device("meta") if isinstance(value, torch.device) else value
