"""The kernels of the device in PyTorch's dispatcher: below autograd, all come to one function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import torch
from torch.library import Library

from ....values.dispatcher import has_kernel, operator_names
from ...native_functions import kernels_of_cuda

_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_inside = torch._C._functorch.get_unwrapped


def in_cpp(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs the composite in C++; ``decompose`` prefers Python code, which may differ."""
    return op._op_dk(torch.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor that transforms of ``torch.func`` have wrapped."""
    while _is_wrapped(tensor):
        tensor = _inside(tensor)
    return tensor


def layers(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields a tensor, and what transforms have wrapped in it, from the outside."""
    yield tensor
    while _is_wrapped(tensor):
        tensor = _inside(tensor)
        yield tensor


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yields the tensors among the arguments or results of a call, at any depth."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


_CUDA: Final = "CUDA"
_META: Final = torch.DispatchKey.Meta

#: The keys of sparse tensors of CUDA.
_SPARSE: Final = ("SparseCUDA", "SparseCsrCUDA")

#: The operators of lists of tensors.
_OF_LISTS: Final = "aten::_foreach_"

#: Runs an operator with its arguments.
Run = Callable[..., Any]


def register(
    run: Run,
    own: Mapping[Any, Run],
    composites: Mapping[Any, Run],
    others: Mapping[str, Mapping[Any, Run]],
    refuse: Run,
) -> list[Library]:
    """Gives the device its kernels; returns what keeps them.

    An operator with a kernel on CUDA gets one here, so that no default of C++ stands between: a
    view the one of PyTorch for tensors without data, and every other ``run(operator, …)``, as those
    do that have no kernel anywhere. ``own`` has others by operator, which are given all the same.
    ``composites`` replace what C++ code composes of other operators above autograd;
    ``others`` stand under keys of their own alone; ``refuse`` runs what only sparse tensors reach.
    """
    fallback, aten = Library("_", "IMPL"), Library("aten", "IMPL")
    fallback.fallback(_unseen(run), _CUDA)
    for key in _SPARSE:
        fallback.fallback(refuse, key)
    refused = {key: _refusals(key, refuse) for key in _SPARSE}
    kernels = {_operator(name): None for name in kernels_of_cuda()}
    kernels.pop(None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about kernels that are replaced on purpose
        for op in [*kernels, *(op for op in own if op not in kernels)]:
            put(aten, op, own.get(op) or _kernel(op, run), _CUDA)
        for op, composite in composites.items():
            put(aten, op, composite, f"Autograd{_CUDA}")
            put(aten, op, composite, _CUDA)
        for other, of_key in {**others, **refused}.items():
            for op, kernel in of_key.items():
                put(aten, op, kernel, other)
    return [fallback, aten]


def _refusals(key: str, refuse: Run) -> Mapping[Any, Run]:
    """Returns what refuses each operator of ``aten`` that PyTorch has a kernel for, by operator.

    A build for CUDA has such kernels, which no fallback replaces.
    """
    aten = (name for name in operator_names() if name.startswith("aten::"))
    found = (_operator(name.removeprefix("aten::")) for name in aten if has_kernel(name, key))
    return {op: partial(refuse, op) for op in found if op is not None}


def register_collectives(kernels: Mapping[Any, Run]) -> list[Library]:
    """Gives the operators of process groups their kernels; returns what keeps them."""
    libraries: dict[str, Library] = {}
    for op, kernel in kernels.items():
        space = op.namespace
        library = libraries.setdefault(space, Library(space, "IMPL"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about kernels that are replaced on purpose
            put(library, op, kernel, _CUDA)
    return [*libraries.values()]


def put(library: Library, op: Any, kernel: Run, key: str) -> None:
    """Makes a function the kernel of an operator for a key."""
    library.impl(op.name().partition("::")[2], _unseen(kernel), key, allow_override=True)


def _unseen(kernel: Run) -> Run:
    """Returns a kernel whose own use of tensors the program's function modes do not see."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.DisableTorchFunction():
            return kernel(*args, **kwargs)

    return run


def below(op: Any, key: torch.DispatchKey) -> Run:
    """Returns PyTorch's kernel of an operator for another key."""
    return partial(op._op_dk, key)


def _kernel(op: Any, run: Run) -> Run:
    if op.is_view:
        return below(op, _META)
    name = op._schema.name
    runs = partial(run, op)
    return _counting(runs) if name.startswith(_OF_LISTS) and name.endswith("_") else runs


def _counting(kernel: Run) -> Run:
    """Returns a kernel that counts its writes for autograd's checks, as those of lists do."""

    def run(written: Any, *args: Any, **kwargs: Any) -> Any:
        out = kernel(written, *args, **kwargs)
        torch.autograd.graph.increment_version([one for one in written if not one.is_inference()])
        return out

    return run


def _operator(name: str) -> Any:
    """Returns an operator of this PyTorch; None if Python has no name for it."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
