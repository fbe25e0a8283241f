"""Reads of values on the null device: each gets the value that the tape computes."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from multiprocessing import parent_process
from typing import Any

import torch

from ...errors import UnknownInWorker, UnknownValue, again, first_line
from ...nulldevice.contents import answered, unanswered_reads
from ...values.compute import compute
from ...values.notes import Slot, mapped
from ...values.tape import Tape
from ..ranks import checks_agreement
from ..tracing.dispatch_tracker import caller
from .outcomes import OUTCOMES, succeeded
from .sizes import SIZES

_aten = torch.ops.aten
_READS = " reads the device inside, and its answer depends on it"


class Reads:
    """Runs operators whose results the host sees."""

    def __init__(self, tape: Tape, must_know: bool) -> None:
        self.unknown: list[str] = []
        """The reads that nobody could answer, in order."""
        self.assumed: list[str] = []
        """The reads whose answers rest on an assumption, in order."""
        self.untrue: list[str] = []
        """Both, in order."""
        self._tape = tape
        self._must_know = must_know
        self._zeros = unanswered_reads()
        special: dict[Any, Callable[[Any, Any, Any], Any]] = {
            **dict.fromkeys(SIZES, self._sized),
            **dict.fromkeys(OUTCOMES, self._succeeded),
            _aten._local_scalar_dense.default: self._scalar,
            _aten.equal.default: self._compared,
            _aten.allclose.default: self._compared,
            _aten._to_copy.default: self._to_host,
            _aten.copy_.default: self._to_host,
        }
        self._special = {id(func): run for func, run in special.items()}  # the hash of one is slow

    def run_answered(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs an operator; its reads get true values.

        Raises:
            UnknownValue: a value is read that nobody can know.
        """
        special = self._special.get(id(func))
        if special is not None:
            return special(func, args, kwargs)
        before = self._zeros.value
        try:
            out = func(*args, **kwargs)
        except Exception:
            self._refuse_zeros(func, before)  # the error may come of them
            raise
        self._refuse_zeros(func, before)
        return out

    def _refuse_zeros(self, func: Any, before: int) -> None:
        """Refuses an operator that read zeros since ``before``, when so many reads got zeros."""
        if self._zeros.value != before:
            self._refuse(f"{func}{_READS}")

    def copy_known(self, slot: Slot, offset: int, into: int, size: int) -> bool:
        """Copies bytes of a storage to the host; returns False if nobody can know them."""
        try:
            contents = self._known(lambda: self._tape.contents(slot))
        except UnknownValue:
            return False
        if offset + size > contents.numel():
            return False
        if slot.buffer.assumed:
            self.assume(slot.buffer.assumed)
        ctypes.memmove(into, contents.data_ptr() + offset, size)
        return True

    def run_unanswered(self, run: Callable[[], Any]) -> Any:
        """Returns what compiled code returns; its reads get zeros.

        Raises:
            UnknownValue: it raised an error after a read, as of a check that found zeros.
        """
        before = self._zeros.value
        try:
            return run()
        except RuntimeError as error:
            if self._zeros.value == before:
                raise
            why = f"compiled code reads the device inside, and raised: {first_line(error)}"
            self._refuse(why)

    def _sized(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs an operator whose own code reads values, to find the size of its result."""
        answer = self._known(lambda: SIZES[func](self._value, args, kwargs))
        before = self._zeros.value
        with answered(answer) as left:
            out = func(*args, **kwargs)
        # It may read nothing, as when it fills by a mask; other bytes than these are a mistake.
        if 0 < left[0] < len(answer):
            self._refuse(f"{func}{_READS}")
        self._refuse_zeros(func, before)
        return out

    def _succeeded(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs an operator that reads whether it succeeded, and raises if it did not."""
        success = succeeded(func)
        otherwise = None if self._must_know else success
        try:
            found = self._known(
                lambda: OUTCOMES[func](self._computed, func, args, kwargs), otherwise
            )
        except UnknownValue:
            with answered(success.answer):
                func(*args, **kwargs)  # it raises the device's own error of the arguments, if any
            raise
        before = self._zeros.value
        with answered(found.answer):
            out = func(*args, **kwargs)
        if found.error is not None:
            raise again(found.error)
        self._refuse_zeros(func, before)
        return out

    def _computed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Returns what an operator returns, computed on the host."""
        self._tape.replay.afford(func, args, kwargs)
        return compute(func, *mapped(self._known_value, (args, kwargs)))

    def _scalar(self, func: Any, args: Any, kwargs: Any) -> Any:
        return self._known(lambda: self._value(args[0]), self._otherwise(args[0])).item()

    def _compared(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs ``equal`` or ``allclose``, which read one byte."""
        compare = torch.equal if func is _aten.equal.default else torch.allclose
        same = self._known(lambda: compare(*map(self._value, args[:2]), *args[2:], **kwargs))
        with answered(bytes([same])):
            return func(*args, **kwargs)

    def _to_host(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs a copy; a tensor of the host gets the values of the tensor on the device."""
        source = args[1] if func is _aten.copy_.default else args[0]
        with answered():
            out = func(*args, **kwargs)
        if source.is_cuda and not out.is_cuda and out.device.type == "cpu" and out.numel():
            out.copy_(self._known(lambda: self._value(source), self._otherwise(source)))
        return out

    def _known_value(self, leaf: Any) -> Any:
        """Returns an argument with the value of a tensor in its place."""
        return self._value(leaf) if isinstance(leaf, torch.Tensor) else leaf

    def _value(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a value; notes the assumption that it rests on."""
        if assumption := self._tape.assumption(tensor):
            self.assume(assumption)
        return self._tape.value_of(tensor)

    def assume(self, assumption: str) -> None:
        """Notes that the program reads a value that rests on an assumption.

        Checks that ranks agree, as of DistributedDataParallel, are PyTorch's, and pass by design.
        """
        if not checks_agreement(sys._getframe(1)):
            where = caller()
            self.assumed.append(f"a value was read{f' at {where}' if where else ''}: {assumption}")
            self.untrue.append(self.assumed[-1])

    def _otherwise(self, tensor: torch.Tensor) -> Any:
        """Returns NaN for a number that a program may do without, as for a log; else None."""
        optional = tensor.is_floating_point() and not self._must_know
        return torch.tensor(math.nan, device="cpu") if optional else None

    def _known(self, read: Callable[[], Any], otherwise: Any = None) -> Any:
        """Returns a value, or ``otherwise`` if nobody can know it.

        Raises:
            UnknownValue: nobody can know it, and there is no other answer.
        """
        try:
            return read()
        except UnknownValue as error:
            return self._refuse(str(error), otherwise)

    def _refuse(self, why: str, otherwise: Any = None) -> Any:
        """Notes a read that nobody can answer; returns ``otherwise``, or raises as ``_known``."""
        where = caller()
        found = f"a value was read{f' at {where}' if where else ''} that is not known: {why}"
        self.unknown.append(found)
        self.untrue.append(found)
        if otherwise is None:
            raise (UnknownInWorker if parent_process() else UnknownValue)(found) from None
        return otherwise
