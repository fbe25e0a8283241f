"""The tensors of the host that CUDA's operators refuse, from a recording: ``refusals.json``.

``tests/null/record_hosts.py`` wrote it. A row has the versions of PyTorch that it holds for, if the
operators may allocate memory before they fail, the check, and the operators. A check is the name
of one of PyTorch's own, or has the number of a text for each place that refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch._ops import OpOverload

from ....torch_releases import rules_version
from .checks import TWO_DEVICES, Check, by_place, by_place_in_lists, check_of
from .operands import Signature, is_mixed
from .unknown import is_unknown, may_be_unknown

FILE: Final = Path(__file__).with_name("refusals.json")


class Refusal(NamedTuple):
    """The error of a call."""

    text: str
    """PyTorch's own text."""
    allocates: bool
    """True if the call may allocate memory before it fails."""
    runs: bool = False
    """True if CUDA runs the call, and nobody knows its memory; the text is ours."""


#: The refusal of a call that runs on CUDA.
UNKNOWN: Final = Refusal(
    "takes a tensor of the CPU beside tensors of the device, and what it then allocates is not"
    " known; move it to the device",
    allocates=True,
    runs=True,
)
#: The refusal of operators of elements, which most operators without a recording are.
OF_ELEMENTS: Final = Refusal(TWO_DEVICES, allocates=False)


class OpHosts:
    """What one operator does with tensors of the host beside tensors of the device."""

    def __init__(self, func: Any, check: Check, allocates: bool) -> None:
        self._func = func
        self._signature = Signature(func)
        self._check = check
        self._allocates = allocates

    def check(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        error: Callable[[Any, Refusal], BaseException],
    ) -> None:
        """Checks that CUDA takes the tensors of the host among the arguments.

        Raises:
            MixedDevices: it does not; ``error`` makes it.
            CannotSimulate: it does, and nobody knows what it allocates then.
        """
        tensors = self._signature.placed(args, kwargs)
        if not is_mixed(tensors):
            return
        if text := self._check(tensors):
            raise error(self._func, Refusal(text, self._allocates))
        if is_unknown(self._func.name(), tensors):
            raise error(self._func, UNKNOWN)


class Hosts:
    """What all operators do with tensors of the host on the installed version of PyTorch."""

    def __init__(self, version: str = torch.__version__) -> None:
        self._by_op = _checks_by_op("{}.{}".format(*rules_version(version)))

    def of(self, func: Any) -> OpHosts | None:
        """Returns what an operator does; None if it refuses no tensor, or if nothing is known."""
        if not isinstance(func, OpOverload):
            return None
        check, allocates = self._by_op.get(func.name(), ({}, False))
        if not check and not (self._by_op and may_be_unknown(func.name())):
            return None
        return OpHosts(func, made(check, func), allocates)


def made(check: Any, func: Any) -> Check:
    """Returns the check of an operator, from its name or from texts by place."""
    name = func._schema.name.removeprefix("aten::")
    if isinstance(check, str):
        return check_of(check, name, func._schema.overload_name)
    return partial(by_place_in_lists if name.startswith("_foreach_") else by_place, check)


def _checks_by_op(version: str) -> Mapping[str, tuple[Any, bool]]:
    found: dict[str, tuple[Any, bool]] = {}
    kept = json.loads(FILE.read_text("utf-8"))
    for versions, allocates, check, ops in kept["rows"]:
        if version in versions.split():
            if not isinstance(check, str):
                check = {place: kept["texts"][number] for place, number in check.items()}
            found |= dict.fromkeys((f"aten::{op}" for op in ops.split()), (check, bool(allocates)))
    return found
