"""The calls whose memory certifies an operator: ``recipes.zip``, one line a call. No torch.

A line is a call as Python writes it, with tensors as text, and what is special about it::

    aten.mm.default('float32[5, 7]', 'float32[7, 3](1, 7)')  # cold on A100-80GB H100

A tensor is ``dtype[shape]``, with strides ``(1, 7)`` and an offset ``@4`` where they are not the
usual ones; ``host int64[]`` is on the host, and ``grad float16[2]`` requires a gradient. ``on``
names the devices that have kernels for the call; without it, each has.
"""

from __future__ import annotations

import ast
import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

#: Decides which backend attends: its answer is compared, and the plans of attention rest on it.
CHOICE: Final = "aten._fused_sdp_choice.default"
#: The operators that attention by such a backend begins with.
_CHOSEN: Final = ("aten._scaled_dot_product_", "aten._safe_softmax.")
#: The devices on which the calls were recorded.
DEVICES: Final = ("A100-80GB", "H100", "T4", "A10G", "B200")
FILE: Final = Path(__file__).with_name("recipes.zip")
_NAME: Final = "recipes.txt"
_ABOUT: Final = "  # "


@dataclass(frozen=True, slots=True)
class Recipe:
    """A call of an operator."""

    op: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    cold: bool = False
    """True if the workspaces of libraries are not there yet."""
    deterministic: bool = False
    """True under ``torch.use_deterministic_algorithms``."""
    ieee: bool = False
    """True if cuDNN may not use TF32."""
    period: int = 0
    """Other than 0 if the call reads data: integers count 0, 1, 2, 0, … up to the period, and one
    element in so many is 1, the rest 0."""
    on: tuple[str, ...] = ()
    """The devices that run the call; empty for all."""

    def __str__(self) -> str:
        """Returns the line."""
        words = [*map(_text, self.args), *(f"{key}={_text(v)}" for key, v in self.kwargs.items())]
        about = [name for name in ("cold", "deterministic", "ieee") if getattr(self, name)]
        about += [f"period={self.period}"] if self.period else []
        about += ["on", *self.on] if self.on else []
        return f"{self.op}({', '.join(words)})" + (_ABOUT + " ".join(about) if about else "")

    def runs_on(self, device: str) -> bool:
        """Returns True if that device is known to run the call."""
        return not self.on or device in self.on


def _text(value: Any) -> str:
    """Returns a value as :func:`ast.literal_eval` reads it, which knows no infinity by name."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value).replace("inf", "1e999") if isinstance(value, float) else repr(value)


def parse(line: str) -> Recipe:
    """Returns the call of a line.

    Raises:
        ValueError: it is none.
    """
    text, _, about = line.partition(_ABOUT)
    op, _, _ = text.partition("(")
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call):
        raise ValueError(f"not a call: {line}")
    args = tuple(map(ast.literal_eval, call.args))
    kwargs = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    modes, _, on = about.partition("on ") if about else ("", "", "")
    words = modes.split()
    period = next((int(word[7:]) for word in words if word.startswith("period=")), 0)
    return Recipe(
        op, args, kwargs, "cold" in words, "deterministic" in words, "ieee" in words, period,
        tuple(on.split()),
    )  # fmt: skip


def write(recipes: Iterable[Recipe]) -> None:
    """Replaces the file; the same calls make the same bytes."""
    text = "".join(f"{recipe}\n" for recipe in recipes)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(zipfile.ZipInfo(_NAME), text, zipfile.ZIP_DEFLATED, 9)
    FILE.write_bytes(buffer.getvalue())


def text_of_recipes() -> str:
    """Returns all lines."""
    with zipfile.ZipFile(FILE) as archive:
        return archive.read(_NAME).decode("utf-8")


def recipes() -> Iterator[Recipe]:
    """Yields all calls, those of an operator together."""
    return map(parse, text_of_recipes().splitlines())


def digest() -> str:
    """Returns a digest of all calls, in any order, which says what a certificate rests on."""
    lines = sorted(text_of_recipes().splitlines())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@cache
def lines_by_operator() -> Mapping[str, tuple[str, ...]]:
    """Returns the lines of each operator."""
    found: dict[str, list[str]] = {}
    for line in text_of_recipes().splitlines():
        found.setdefault(line.partition("(")[0], []).append(line)
    return MappingProxyType({op: tuple(lines) for op, lines in found.items()})


def vouching(op: str) -> tuple[str, ...]:
    """Returns the operators whose calls tell whether the rule of ``op`` holds.

    That is itself, or its other overloads and its form that works in place; empty if no call does.
    Before an operator of attention PyTorch chose a backend.
    """
    known = lines_by_operator()
    own = (op,) if op in known else tuple(one for one in known if _stem(one) == _stem(op))
    return (*own, CHOICE) if op.startswith(_CHOSEN) else own


def _stem(op: str) -> str:
    """Returns ``aten.add`` for ``aten.add_.Tensor``."""
    return op.rpartition(".")[0].removesuffix("_")
