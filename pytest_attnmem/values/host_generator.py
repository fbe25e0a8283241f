"""Generators of the host, whose numbers are drawn when a program reads one of them.

An operator that draws on the host is noted like every other, and computes nothing. PyTorch's
numbers depend on the operators that drew before, so each note depends on the note before it, back
to the generator's last seed; then the numbers are PyTorch's own for that seed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import torch

from ..errors import UnknownValue
from .notes import Draws, Note

#: The bytes of numbers that are drawn though nobody has read them: they take milliseconds.
_FEW: Final = 1 << 24

#: The methods of C++, which no patch of a program's generators replaces.
_Real: Any = torch._C.Generator


def _state(*, generator: None = None) -> torch.Tensor:
    return torch._C.default_generator.get_state()


def _set_state(state: torch.Tensor, *, generator: None = None) -> None:
    torch._C.default_generator.set_state(state)


def _define(name: str, arguments: str, run: Callable[..., object]) -> None:
    if not hasattr(torch.ops.attnmem, name):  # torch keeps operators if this module is reloaded
        tags = (torch.Tag.nondeterministic_seeded,)
        torch.library.define(f"attnmem::{name}", arguments, tags=tags)
        torch.library.impl(f"attnmem::{name}", "CompositeExplicitAutograd", run)


_define("host_random_state", "(*, Generator? generator=None) -> Tensor", _state)
_define("set_host_random_state", "(Tensor state, *, Generator? generator=None) -> ()", _set_state)

#: The operators of ``get_state`` and ``set_state`` of a generator, to be noted. The host draws from
#: its default generator, which continues from the state of the program's.
STATE = torch.ops.attnmem.host_random_state.default
SET_STATE = torch.ops.attnmem.set_host_random_state.default


class _Known(NamedTuple):
    generator: torch.Generator
    mark: torch.Tensor
    """The state that the generator was left in; another one shows that it was seeded since."""
    draws: Draws


class HostGenerators:
    """The generators of the host from which the program of one window draws."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._first: dict[int, tuple[torch.Generator, torch.Tensor]] = {}

    def draws(self, generator: torch.Generator) -> Draws:
        """Returns the operators that draw from the generator since it was seeded."""
        known, state = self._known.get(id(generator)), _Real.get_state(generator)
        if known is None or not torch.equal(state, known.mark):
            self._first.setdefault(id(generator), (generator, state))
            torch.empty((), dtype=torch.int64, device="cpu").random_(
                generator=generator
            )  # the mark
            known = _Known(generator, _Real.get_state(generator), Draws(state))
            self._known[id(generator)] = known
        return known.draws

    def leave(self, run: Callable[[Note], None], *, starts_again: bool) -> None:
        """Ends the window: code outside it draws from the generators themselves.

        A generator continues after the numbers that were read, and after others if they are few;
        ``run`` draws them. A program that starts again finds each generator as it was.
        """
        if starts_again:
            for generator, state in self._first.values():
                _Real.set_state(generator, state)
        else:
            for generator, mark, draws in self._known.values():
                if draws.pending is not None and draws.waiting_bytes <= _FEW:
                    with suppress(UnknownValue):
                        run(draws.pending)
                done = draws.pending is None and not (draws.too_many or draws.unknown)
                if done and torch.equal(_Real.get_state(generator), mark):
                    _Real.set_state(generator, draws.state)
        self._known.clear()
        self._first.clear()
