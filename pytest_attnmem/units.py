"""Sizes in bytes, read from text and written as text with IEC units; integers, never floats."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from .errors import ProgramRefused, SizeError

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_SIZE: Final = re.compile(
    r" *(-?)([0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?)(e[-+]?[0-9]{1,2})?(?: *([A-Za-z]+))? *", re.IGNORECASE
)
_AMBIGUOUS: Final = re.compile(r"[KMGT]B", re.IGNORECASE)
_MAX_LENGTH: Final = 64
_ACCEPTED: Final = f"write a number and one of {', '.join(_UNITS)}, as in '64 MiB'"


def excerpt(text: str, limit: int = _MAX_LENGTH) -> str:
    """Returns the first *limit* characters of *text* on one line, for a message."""
    return printable(_shortened(text, limit))


def printable(text: str) -> str:
    """Returns the text on one line, without characters that a terminal obeys."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def shown(value: object, limit: int = _MAX_LENGTH) -> str:
    """Returns the repr of a user's object as one line for a message, even if the repr raises.

    Shortened text keeps its quotes; an error reads like the last line of a traceback.
    """
    try:
        if type(value) is str:
            return repr(_shortened(value, limit))
        if isinstance(value, BaseException):
            return excerpt(f"{type(value).__name__}: {value}", limit)
        return excerpt(repr(value), limit)
    except (ProgramRefused, Exception) as error:  # the user's code, or too many digits for Python
        if isinstance(value, int):
            return f"<int of {value.bit_length()} bits>"
        return excerpt(f"<{type(value).__name__}, its repr raised {type(error).__name__}>", limit)


def kind_of(value: object) -> str:
    """Returns the type of a user's object for a message: ``an int``, ``a Tensor``."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def parse_size(text: str) -> int:
    """Returns the bytes of a text such as ``64 MiB``, ``1.5 GiB``, ``1_024 B`` or ``0``.

    The units are B, KiB, MiB, GiB and TiB, in any case.

    Raises:
        SizeError: a number without a unit, a size that is negative or not a whole number of bytes,
            or any other text.
    """
    refused = f"cannot parse size '{excerpt(text)}'"
    if len(text) > _MAX_LENGTH:
        raise SizeError(f"{refused}: it is longer than {_MAX_LENGTH} characters; {_ACCEPTED}")
    match = _SIZE.fullmatch(text)
    if match is None:
        raise SizeError(f"{refused}: {_ACCEPTED}")
    sign, number, exponent, written = match.groups()
    unit = next((unit for unit in _UNITS if unit.casefold() == (written or "").casefold()), None)
    if sign:
        raise SizeError(f"{refused}: a size cannot be negative; {_ACCEPTED}")
    if exponent is not None:
        raise SizeError(f"{refused}: {_without_exponent(number + exponent, written, unit)}")
    if written is None:
        if number == "0":
            return 0
        plain_bytes = "" if "." in number else f"'{number} B' or "
        raise SizeError(f"{refused}: it has no unit; write {plain_bytes}'{number} MiB'")
    if _AMBIGUOUS.fullmatch(written):
        raise SizeError(f"{refused}: {_ambiguous(number, written)}")
    if unit is None:
        raise SizeError(f"{refused}: {_ACCEPTED}")
    size = Fraction(number.replace("_", "")) * _factor(unit)
    if size.denominator != 1:
        below = format_exact(int(size))
        raise SizeError(f"{refused}: it is not a whole number of bytes; round it, as in '{below}'")
    return size.numerator


def format_size(size: int) -> str:
    """Returns *size* bytes as text with one decimal: ``512 B``, ``76.5 MiB``."""
    unit = common_unit([size])
    return f"{format_in(size, unit)} {unit}"


def format_exact(size: int) -> str:
    """Returns *size* bytes in the largest unit that holds it whole: ``64 MiB``, ``1536 B``.

    It is the inverse of parse_size for every size that fits into 64 characters.
    """
    unit = next(u for u in reversed(_UNITS) if size % _factor(u) == 0) if size else "B"
    return f"{size // _factor(unit)} {unit}"


def format_with_bytes(size: int) -> str:
    """Returns *size* bytes in both ways: ``64.0 MiB (67,108,864 B)``."""
    return f"{format_size(size)} ({size:,} B)"


def format_distinct(*sizes: int) -> tuple[str, ...]:
    """Returns each size as format_size does, or all in exact bytes if two would read the same.

    A message that compares sizes never reads "64.0 MiB exceeds 64.0 MiB".
    """
    texts = tuple(map(format_size, sizes))
    if len(set(texts)) < len(set(sizes)):
        return tuple(f"{size:,} B" for size in sizes)
    return texts


def format_change(nbytes: int) -> str:
    """Returns a change of bytes: ``+14.0 MiB`` or ``-1.5 KiB``."""
    return f"{'-' if nbytes < 0 else '+'}{format_size(abs(nbytes))}"


def format_count(count: int, thing: str) -> str:
    """Returns ``1 tensor`` or ``2 tensors``."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def format_points(sizes: Iterable[int], values: Iterable[int]) -> str:
    """Returns the bytes at each size: ``4.0 MiB at 512, 16.0 MiB at 1024``."""
    pairs = zip(sizes, values, strict=True)
    return ", ".join(f"{format_size(nbytes)} at {size}" for size, nbytes in pairs)


def format_some(names: Sequence[str], most: int) -> str:
    """Returns the first names, and the number of others: ``a, b and 5 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def format_values(values: Mapping[str, object]) -> str:
    """Returns names and values in a line: ``N=512 d=64``."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def format_runs(numbers: Iterable[int], to: str, apart: str) -> str:
    """Returns sorted numbers with those that follow each other together, such as ``0-3, 7``."""
    runs: list[tuple[int, ...]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number,))
    return apart.join(to.join(map(str, run)) for run in runs)


def common_unit(sizes: Iterable[int]) -> str:
    """Returns the unit for a column of *sizes* in bytes: the unit of the largest one, or B."""
    largest = max(map(abs, sizes), default=0)
    if largest < 1024:
        return "B"
    # Compares rounded sizes, so that 1023.97 KiB becomes 1.0 MiB and never 1024.0 KiB.
    return next((u for u in _UNITS[1:-1] if _tenths(largest, u) < 10240), _UNITS[-1])


def format_in(size: int, unit: str) -> str:
    """Returns *size* bytes as a number of *unit*, with one decimal, or none in B.

    Halves round away from zero.

    Raises:
        SizeError: the unit is not known.
    """
    if unit not in _UNITS:
        raise SizeError(f"unknown unit '{excerpt(unit)}': use one of {', '.join(_UNITS)}")
    if unit == "B":
        return str(size)
    whole, tenth = divmod(_tenths(abs(size), unit), 10)
    sign = "-" if size < 0 and (whole or tenth) else ""
    return f"{sign}{whole}.{tenth}"


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def bytes_of_unit(name: str) -> int | None:
    """Returns the bytes of ``KiB``, ``MiB``, ``GiB`` or ``TiB``, or None for another name."""
    return _factor(name) if name in _UNITS[1:] else None


def _factor(unit: str) -> int:
    return 1 << 10 * _UNITS.index(unit)


def _tenths(size: int, unit: str) -> int:
    factor = _factor(unit)
    return (20 * size + factor) // (2 * factor)


def _without_exponent(number: str, written: str | None, unit: str | None) -> str:
    value = Fraction(number.replace("_", ""))
    if value.denominator != 1 or value >= 10**20 or (written and not unit):
        return f"a size has no exponent; {_ACCEPTED}"
    return f"a size has no exponent; write '{value} {unit or 'B'}'"


def _ambiguous(number: str, unit: str) -> str:
    exponent = "KMGT".index(unit[0].upper()) + 1
    iec = _UNITS[exponent]
    power = "1024" if exponent == 1 else f"1024**{exponent}"
    return (
        f"write '{number} {iec}' (1 {iec} = {power} bytes); "
        f"{unit} is used for both 10**{3 * exponent} and 2**{10 * exponent}"
    )
