"""Inputs for attention, which no measurement counts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..errors import BudgetError
from ..suggestion import closest
from ..symbols.attention_shape import Source
from ..symbols.names import ALIASES, DEFAULTS
from ..symbols.sizes import as_sizes
from ..units import shown
from .window_stack import pause

if TYPE_CHECKING:
    import torch


P = ParamSpec("P")
R = TypeVar("R")
#: The name of this source of symbols, and its symbols.
_LABEL = "qkv"
_SIZES = ("B", "H", "N", "d", "Hkv", "M", "dv")

#: Symbol → the size that a test gives it, and the size that inputs get in its place.
Resized = Mapping[str, tuple[int, int]]

#: Short names of dtypes that torch does not have.
_SHORT = MappingProxyType(
    {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
)


def _by_symbol(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function with keywords such as ``seq_len`` in place of symbols as well."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(**read_arguments(args, kwargs))  # type: ignore[call-arg]

    return called


@_by_symbol
def qkv(
    B: int,
    H: int,
    N: int,
    d: int,
    *,
    Hkv: int | None = None,
    M: int | None = None,
    dv: int | None = None,
    dtype: torch.dtype | str | None = None,
    device: str | torch.device | None = None,
    requires_grad: bool = False,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns normal random q [B, H, N, d], k [B, Hkv, M, d], v [B, Hkv, M, dv], equal each time.

    Keywords may also be other common names of the symbols, such as ``seq_len``. The defaults are
    ``Hkv=H``, ``M=N``, ``dv=d`` and float32. Inside a window, neither the allocation nor the free
    of an input is counted.

    Raises:
        BudgetError: a size is not a positive whole number, H is not a multiple of Hkv, the dtype
            is not a floating one, or the device is not here.
    """
    import torch

    kind = dtype_of(dtype)
    Hkv, M, dv = H if Hkv is None else Hkv, N if M is None else M, d if dv is None else dv
    given = {"B": B, "H": H, "N": N, "d": d, "Hkv": Hkv, "M": M, "dv": dv}
    B, H, N, d, Hkv, M, dv = as_sizes("qkv", given, bits=63)
    if H % Hkv:
        raise BudgetError(f"qkv needs H to be a multiple of Hkv, got H={H} Hkv={Hkv}")
    if not isinstance(requires_grad, bool):
        raise BudgetError(f"qkv needs requires_grad to be a bool, got {shown(requires_grad)}")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
        raise BudgetError(f"qkv needs seed to be an int >= 0 and < 2**64, got {shown(seed)}")
    try:
        torch.device("cpu" if device is None else str(device))
    except (RuntimeError, ValueError):
        raise BudgetError(
            f"qkv needs a device such as 'cuda:0' or 'cpu', got {shown(device)}"
        ) from None
    with pause() as keep:
        try:
            generator = torch.Generator(device or "cpu").manual_seed(seed)
        except (AssertionError, RuntimeError):  # torch's text is long, and speaks of the linker
            raise BudgetError(
                f"qkv needs a device that is here, got {shown(device)}; without device=, the"
                " fixture makes the inputs on the backend's device"
            ) from None

        def make(heads: int, length: int, width: int) -> torch.Tensor:
            tensor = torch.randn(
                B, heads, length, width, generator=generator, dtype=kind, device=device or "cpu"
            )
            keep(tensor.untyped_storage())
            return tensor.requires_grad_(requires_grad)

        return make(H, N, d), make(Hkv, M, d), make(Hkv, M, dv)


def read_arguments(args: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call of :func:`qkv` by symbol: ``seq_len`` becomes ``N``.

    Raises:
        BudgetError: a keyword is unknown, two mean the same, or a required one is missing.
    """
    signature = inspect.signature(qkv)
    known = signature.parameters
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    if unknown := [name for name in keywords if name not in known and name not in ALIASES]:
        meant = [close for name in unknown if (close := closest(name, {*known, *ALIASES}))]
        hint = f"; did you mean {', '.join(meant)}?" if meant else ""
        raise BudgetError(
            f"qkv has no keyword {', '.join(map(shown, unknown))}; it takes {', '.join(known)}, and"
            f" names such as batch, heads, seq_len and head_dim{hint}"
        )
    for name, value in keywords.items():
        symbol = name if name in known else ALIASES[name]
        other = names.setdefault(symbol, name)
        if other != name:
            raise BudgetError(f"qkv got {symbol} twice, as {other} and as {name}; leave one out")
        found[symbol] = value
    try:
        return dict(signature.bind(*args, **found).arguments)
    except TypeError as error:
        raise BudgetError(f"qkv takes B, H, N, d and keywords: {error}") from None


def dtype_of(
    dtype: torch.dtype | str | None, what: str = "qkv", *, floating_only: bool = True
) -> torch.dtype:
    """Returns the dtype of that name, also of a short one such as ``fp16``; float32 for ``None``.

    Raises:
        BudgetError: no dtype has the name, or it is not a floating one.
    """
    import torch

    named = _SHORT.get(dtype, dtype) if isinstance(dtype, str) else dtype
    found = getattr(torch, named, None) if isinstance(named, str) else named
    found = torch.float32 if named is None else found
    if not isinstance(found, torch.dtype) or (floating_only and not found.is_floating_point):
        kind = "a floating dtype" if floating_only else "a dtype"
        raise BudgetError(
            f"{what} needs {kind}, such as torch.float16 or 'float16', got {shown(dtype)}"
        )
    return found


def resized(arguments: Mapping[str, Any], sizes: Resized) -> dict[str, Any]:
    """Returns the arguments of :func:`qkv` with another size for each symbol of ``sizes``."""
    others = {s: other for s, (own, other) in sizes.items() if arguments.get(s) == own}
    return {**arguments, **others}


def shape_of(arguments: dict[str, Any]) -> Source:
    """Returns the symbols of a call of :func:`qkv` with these arguments."""
    names = (*_SIZES, "dtype")
    known = {name: arguments[name] for name in names if arguments.get(name) is not None}
    values = {"Hkv": known["H"], "M": known["N"], "dv": known["d"], "dtype": "float32"} | known
    return Source(_LABEL, values, frozenset(DEFAULTS) - known.keys())


def sizes_of(sources: Iterable[Source]) -> dict[str, int]:
    """Returns the sizes on which all calls of :func:`qkv` in ``sources`` agree."""
    found: dict[str, set[Any]] = {}
    for source in sources:
        for symbol in _SIZES if source.label == _LABEL else ():
            if symbol not in source.assumed:
                found.setdefault(symbol, set()).add(source.values[symbol])
    return {symbol: one for symbol, sizes in found.items() for one in sizes if len(sizes) == 1}
