"""Whether an operator of linear algebra succeeded: PyTorch reads it from the device, and may raise.

The code that reads is in aten/src/ATen/native: BatchLinearAlgebra.cpp and
cuda/linalg/BatchLinearAlgebra{,Lib}.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch

from ...errors import CannotCompute, UnknownValue, first_line

_aten = torch.ops.aten


class Outcome(NamedTuple):
    """What the device answers when it is asked whether an operator succeeded."""

    answer: bytes | None = None
    """The bytes of the reads, in their order; None for zeros, which say that it did."""
    error: RuntimeError | None = None
    """What the operator raises if the answer does not say so."""


#: The results of an operator, computed on the host from the values of its arguments.
Computed = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
#: The answer that no decomposition failed, in more bytes than are read.
_SUCCESS: Final = bytes(8)
#: The place of the numbers that tell errors among the results of an operator.
_NUMBERS = MappingProxyType(
    {
        "linalg_cholesky_ex": 1,
        "linalg_inv_ex": 1,
        "linalg_lu_factor_ex": 2,
        "linalg_ldl_factor_ex": 2,
        "_linalg_solve_ex": 3,
    }
)


def succeeded(func: Any) -> Outcome:
    """Returns the outcome of an operator that nobody can know, if the program goes on."""
    return Outcome(bytes([True]) + _SUCCESS if func._opname == "linalg_eig" else None)


def _without_targets(func: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Returns the overload of an operator without ``out=``, and its arguments by name."""
    expected = [argument.name for argument in func._schema.arguments if not argument.is_out]
    for name in func.overloadpacket.overloads():
        found = getattr(func.overloadpacket, name)
        if [argument.name for argument in found._schema.arguments] == expected:
            return found, {name: value for name, value in kwargs.items() if name in expected}
    return func, kwargs


def _of_numbers(numbers: torch.Tensor) -> Outcome:
    """Returns what ``_linalg_check_errors`` reads: whether one is not zero, and then all."""
    if not numbers.any():
        return Outcome(bytes([False]))
    return Outcome(bytes([True]) + numbers.reshape(-1).view(torch.uint8).numpy().tobytes())


def _checked(computed: Computed, func: Any, args: Any, kwargs: Any) -> Outcome:
    return _of_numbers(computed(_aten.alias.default, (args[0],), {}))


def _checked_if_asked(computed: Computed, func: Any, args: Any, kwargs: Any) -> Outcome:
    if not kwargs.get("check_errors"):
        return Outcome(b"")
    func, kwargs = _without_targets(func, {**kwargs, "check_errors": False})
    return _of_numbers(computed(func, args, kwargs)[_NUMBERS[func._opname]])


def _on_host(
    computed: Computed, func: Any, args: Any, kwargs: Any
) -> tuple[Any, RuntimeError | None]:
    """Returns the host's results, or None and the host's error."""
    func, kwargs = _without_targets(func, kwargs)
    try:
        return computed(func, args, kwargs), None
    except CannotCompute as error:
        if isinstance(error.__cause__, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            return None, error.__cause__.with_traceback(None)
        raise UnknownValue(str(error)) from None


def _converged(computed: Computed, func: Any, args: Any, kwargs: Any) -> Outcome:
    """Returns success, or the host's error."""
    return Outcome(error=_on_host(computed, func, args, kwargs)[1])


def _eigenvalues(computed: Computed, func: Any, args: Any, kwargs: Any) -> Outcome:
    """Returns success, after whether the eigenvalues of real matrices are real, or an error."""
    values, error = _on_host(computed, func, args, kwargs)
    if error is not None or args[0].is_complex():
        return Outcome(error=error)
    return Outcome(bytes([bool((values.imag == 0).all()), *_SUCCESS]))


def _eigenvectors(computed: Computed, func: Any, args: Any, kwargs: Any) -> Outcome:
    """Returns what ``eig`` reads: first whether its input is finite, which it raises if not."""
    if not computed(_aten.isfinite.default, (args[0],), {}).all():
        return Outcome()
    found = _eigenvalues(lambda *call: computed(*call)[0], func, args, kwargs)
    return found._replace(answer=bytes([True]) + (found.answer or _SUCCESS))


def _solved(computed: Computed, func: Any, args: Any, kwargs: Any) -> Outcome:
    """Returns success; for columns that depend on each other, the device may raise or not."""
    error = _on_host(computed, func, args, kwargs)[1]
    if error is not None:
        raise UnknownValue(f"{func}: {first_line(error)}")
    return Outcome()


def _overloads() -> Iterator[tuple[Any, Callable[[Computed, Any, Any, Any], Outcome]]]:
    """Yields each operator that reads its outcome, those with ``out=`` too."""
    by_name = {
        "_linalg_check_errors": _checked,
        **dict.fromkeys(_NUMBERS, _checked_if_asked),
        **dict.fromkeys(("_linalg_eigh", "_linalg_svd", "linalg_pinv"), _converged),
        "_linalg_eigvals": _eigenvalues,
        "linalg_eig": _eigenvectors,
        "linalg_lstsq": _solved,
    }
    for name, outcome in by_name.items():
        packet = getattr(_aten, name)
        for overload in packet.overloads():
            yield getattr(packet, overload), outcome


#: The functions that return the outcome of an operator, by operator.
OUTCOMES: Final[Mapping[Any, Callable[[Computed, Any, Any, Any], Outcome]]] = MappingProxyType(
    dict(_overloads())
)
