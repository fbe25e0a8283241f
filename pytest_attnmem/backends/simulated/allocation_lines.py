"""Descriptions of allocations: the line of the program, the operator and the shape."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any, Protocol

from ...measurement.held import Held
from ...measurement.project import PROJECT, standing
from ..tracing.tensor_origin import COMMANDS, Origin, Origins, is_foreign, user_frame

#: Where an operator was called: an origin, or the codes and the places in them, innermost first.
Line = Origin | Sequence[tuple[CodeType, int]]


class LineFinder:
    """A finder of the program's current line, with a cache of code outside torch."""

    def __init__(self) -> None:
        self._standing: dict[int, tuple[CodeType, int]] = {}  # by id: the hash is slow
        self._origins: Origins | None = None

    def trace(self, origins: Origins | None) -> None:
        """Searches for modules and optimizers too, which takes time, or no longer."""
        self._origins = origins

    def note(self) -> None:
        """Notes the node of autograd's graph for the running operator, in a traced run."""
        if self._origins is not None:
            self._origins.note(sys._getframe(1))

    def caller(self, depth: int = 1) -> Line:
        """Returns the lines outside torch and this package, up to the innermost of the project.

        The caller's own frame and those above it, ``depth`` in all, are this package's.
        """
        frame: Any = sys._getframe(depth)
        if self._origins is not None:
            return self._origins.of(frame)
        known, lines = self._standing, []
        while frame is not None:
            code = frame.f_code
            found = known.get(id(code))
            if found is None:
                path = code.co_filename
                if path.startswith(COMMANDS):
                    break
                found = known[id(code)] = code, -1 if is_foreign(path) else standing(path)
            if found[1] >= 0:
                lines.append((code, frame.f_lasti))
                if found[1] == PROJECT:
                    break
            frame = frame.f_back
        return lines


class Role(Protocol):
    """The role of a storage, which may be learned after its allocation."""

    role: str


def tensor_held(
    nbytes: int, shape: Iterable[int], dtype: Any, op: Any, line: Line, role: Role | None = None
) -> Held:
    """Returns the description of a tensor, with the role learned for it so far."""
    origin = _origin(line)
    if role is not None and role.role:
        origin = origin._replace(role=role.role)
    return Held(nbytes, tuple(shape), str(dtype).removeprefix("torch."), _op_name(op), *origin)


def scratch_held(nbytes: int, op: Any, line: Line) -> Held:
    """Returns the description of an operator's scratch."""
    return Held.of_scratch(nbytes, _op_name(op), *_origin(line))


def workspace_held(library: str, line: Line, nbytes: int) -> Held:
    """Returns the description of a library's workspace."""
    return Held.of_workspace(nbytes, library, *_origin(line))


def _op_name(op: Any) -> str:
    return op if isinstance(op, str) else op.overloadpacket.__name__.strip("_")


def _origin(line: Line) -> Origin:
    if isinstance(line, Origin):
        return line
    frames = ((code.co_filename, _line_number(code, at), code.co_name) for code, at in line)
    found = user_frame(frames)
    return Origin(found.where, found.function, by=found.by)


def _line_number(code: CodeType, instruction: int) -> int:
    """Returns the line of an instruction, as ``frame.f_lineno`` does, which takes longer."""
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno
