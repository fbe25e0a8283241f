"""The calls that CUDA's kernels refuse for a dtype, from a recording: ``refusals.json``.

``tests/null/record_dtypes.py`` wrote it. A row has the versions of PyTorch that it holds for, what
decides, the name of the kernel in the error, the letters of the dtypes that it refuses, and the
operators. A kernel without a name stands for several.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import torch
from torch._ops import OpOverload

from ....errors import again, first_line
from ....torch_releases import rules_version
from .device_checks import CHECKS
from .host_checks import error_on_host, is_shared
from .names import LETTERS, kernel_text
from .operands import DECIDERS, Decider, Signature

FILE: Final = Path(__file__).with_name("refusals.json")
_OF_A_KERNEL: Final = "\" not implemented for '"
#: Dtype → the name of the kernel that refuses it, or "".
Kernels = dict[torch.dtype, str]
#: Operators that are not recorded, and those whose kernels they run.
_LIKE: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            f"bitwise_{name}.{number}": f"bitwise_{name}.Tensor"
            for name in ("and", "or", "xor", "left_shift", "right_shift")
            for number in ("Scalar", "Tensor_Scalar", "Scalar_Tensor")
        },
        **{
            f"bitwise_{name}_.{number}": f"bitwise_{name}_.Tensor"
            for name in ("and", "or", "xor", "left_shift", "right_shift")
            for number in ("Scalar", "Tensor_Scalar")
        },
        **{
            f"__{of}{side}shift__.{kind}": f"bitwise_{long}_shift{suffix}.Tensor"
            for side, long in (("l", "left"), ("r", "right"))
            for of, suffix in (("", ""), ("i", "_"))
            for kind in ("Scalar", "Tensor")
        },
    }
)


class OpRefusals:
    """The refusals of one operator."""

    def __init__(self, func: Any, kernels: Mapping[str, Kernels]) -> None:
        self._func = func
        self._host_checks = is_shared(func)
        self._device_check = CHECKS.get(func)
        self._name = str(func)
        self._signature = Signature(func)
        self._kernels: list[tuple[Decider, Kernels]] = [
            (DECIDERS[decider], found) for decider, found in kernels.items()
        ]

    def check(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        refused: Callable[[str], Exception],
    ) -> bool:
        """Returns True if CUDA's kernels take the dtypes of a call, and False if that is not known.

        What the call allocates before it fails is not known, so ``refused`` is told in any case.
        Some operators launch no kernel for tensors without elements, and run; others fail.

        Raises:
            Exception: the operator refuses it before it chooses a kernel, as on the host.
            NotImplementedError: a kernel refuses the dtype; the text has the form of PyTorch's.
            CannotSimulate: one of several kernels does; ``refused`` makes the error.
        """
        tensors, named = _tensors(args, kwargs), kwargs.get("device")
        devices = [tensor.__dict__.get("_fake_device", tensor.device) for tensor in tensors]
        if not any(device is not None and device.type == "cuda" for device in (*devices, named)):
            return True
        self._check_before_kernels(args, kwargs, refused)
        given = self._signature.operands(args, kwargs)
        for decide, kernels in self._kernels:
            dtype = decide(given)
            if dtype is None or dtype not in kernels:
                continue
            call = f"{self._name} of {str(dtype).removeprefix('torch.')}"
            if any(map(_is_empty, tensors)):
                refused(f"{call} may fail on CUDA, though it has no elements; use another dtype")
                return False
            fails = f"{call} fails on CUDA; use another dtype"
            if not (kernel := kernels[dtype]):
                raise refused(fails)
            refused(fails)
            raise NotImplementedError(kernel_text(kernel, dtype))
        return True

    def _check_before_kernels(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], refused: Callable[[str], Exception]
    ) -> None:
        error: Exception | None = None
        if self._host_checks:
            error = error_on_host(self._func, args, kwargs)
        elif self._device_check is not None and (text := self._device_check(*args, **kwargs)):
            error = (NotImplementedError if _OF_A_KERNEL in text else RuntimeError)(text)
        if error is not None:
            refused(f"{self._name} fails on CUDA: {first_line(error)}")
            raise again(error)


class Refusals:
    """The refusals of all operators on the installed version of PyTorch."""

    def __init__(self, version: str = torch.__version__) -> None:
        self._by_op = _kernels_by_op("{}.{}".format(*rules_version(version)))

    def of(self, func: Any) -> OpRefusals | None:
        """Returns the refusals of an operator; None if CUDA runs it for every dtype."""
        name = str(func).removeprefix("aten.")
        kernels = self._by_op.get(name) or self._by_op.get(_LIKE.get(name, ""), {})
        known = kernels or func in CHECKS or (isinstance(func, OpOverload) and is_shared(func))
        return OpRefusals(func, kernels) if known else None


def _kernels_by_op(version: str) -> Mapping[str, Mapping[str, Kernels]]:
    found: dict[str, dict[str, Kernels]] = {}
    for versions, decider, kernel, letters, ops in json.loads(FILE.read_text("utf-8")):
        if version in versions.split():
            refused = {LETTERS[letter][0]: kernel for letter in letters}
            for op in ops.split():
                found.setdefault(op, {}).setdefault(decider, {}).update(refused)
    return found


def _tensors(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    found = []
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                found.append(item)
    return found


def _is_empty(tensor: Any) -> bool:
    """Returns True if a size is known to be 0; a symbol stands for a larger one."""
    return any(type(size) is int and size == 0 for size in tensor.shape)
