"""The symbols of an attention, and the sizes of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from numbers import Integral

from ..errors import BudgetError
from ..formulas.exact_arithmetic import MAX_BITS
from ..suggestion import closest, did_you_mean, product
from ..units import bytes_of_unit, shown
from .names import ALIASES, DEFAULTS, SYMBOLS
from .sizes import itemsize_of


@dataclass(frozen=True, slots=True)
class Source:
    """A source of symbols: a label for messages, and the values by the names that it uses."""

    label: str
    values: Mapping[str, object]
    assumed: frozenset[str] = frozenset()
    """The names in ``values`` that have a default value, such as an M that ``qkv`` sets to N."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The resolved symbols of one test: ``shape.N``, ``shape["N"]``, ``shape.scores_bytes``.

    Reading a symbol without a value, or with two different values, raises :class:`BudgetError`.
    """

    symbols: Mapping[str, int]
    conflicts: Mapping[str, str] = field(default_factory=dict)
    assumed: Mapping[str, str] = field(default_factory=dict)
    """Symbol with a default value → the symbol with that value: ``M`` → ``N``."""

    def __getitem__(self, name: str) -> int:
        """Returns the value of a symbol, by its own name or by a usual one (``heads``)."""
        return self.read([name])[name]

    def read(self, names: Iterable[str]) -> dict[str, int]:
        """Returns the values of several symbols by the given names.

        Raises:
            BudgetError: symbols have no value, or one has two different values.
        """
        values: dict[str, int] = {}
        names = [*names]
        for name in names:
            symbol = self._symbol(name)
            if symbol in self.conflicts:
                raise BudgetError(self.conflicts[symbol])
            if symbol in self.symbols:
                values[name] = self.symbols[symbol]
        if missing := self.missing(names):
            raise BudgetError(self._lacking(missing))
        return values

    def missing(self, names: Iterable[str]) -> list[str]:
        """Returns the names that have no value, not even two different ones."""
        known = {*self.symbols, *self.conflicts}
        return [name for name in names if self._symbol(name) not in known]

    def _symbol(self, name: str) -> str:
        return name if name in self.symbols else ALIASES.get(name, name)

    def _lacking(self, missing: list[str]) -> str:
        known = ", ".join(f"{name}={value}" for name, value in self.symbols.items()) or "none"
        quoted = ", ".join(map(shown, missing))
        which = f"symbol {quoted} has" if len(missing) == 1 else f"symbols {quoted} have"
        keywords = ", ".join("dtype=…" if name == "itemsize" else f"{name}=…" for name in missing)
        first, others = missing[0], {*SYMBOLS, *self.symbols} - {*missing}
        together = product(first) if first not in SYMBOLS else ""
        hint = f"; did you mean {together}?" if together else did_you_mean(first, others, 0.75)
        if unit := bytes_of_unit(first):
            hint = f"; a formula is in bytes, and 1 {first} is {unit} of them"
        return (
            f"{which} no value (known: {known}); pass {keywords} with the limit, name a test"
            f" argument so, or make the inputs with the fixture qkv{hint}"
        )

    def source(self, name: str) -> str:
        """Returns the symbol that gives a name its value: N for seq_len, and for a default M."""
        symbol = name if name in SYMBOLS else ALIASES.get(name, name)
        return self.assumed.get(symbol, symbol)

    def __getattr__(self, name: str) -> int:
        """Returns the value of a symbol."""
        if name.startswith("__"):
            raise AttributeError(name)
        sizes = [size for size in dir(type(self)) if size.endswith("_bytes")]
        if name not in self.symbols and (size := closest(name, sizes, 0.75)):
            raise BudgetError(f"a shape has no attribute {name!r}; did you mean {size!r}?")
        return self[name]

    @property
    def q_bytes(self) -> int:
        """Returns the bytes of q, [B, H, N, d]."""
        return self["B"] * self["H"] * self["N"] * self["d"] * self["itemsize"]

    @property
    def k_bytes(self) -> int:
        """Returns the bytes of k, [B, Hkv, M, d]."""
        return self["B"] * self["Hkv"] * self["M"] * self["d"] * self["itemsize"]

    @property
    def v_bytes(self) -> int:
        """Returns the bytes of v, [B, Hkv, M, dv]."""
        return self["B"] * self["Hkv"] * self["M"] * self["dv"] * self["itemsize"]

    @property
    def out_bytes(self) -> int:
        """Returns the bytes of the output, [B, H, N, dv]."""
        return self["B"] * self["H"] * self["N"] * self["dv"] * self["itemsize"]

    @property
    def scores_bytes(self) -> int:
        """Returns the bytes of the scores, [B, H, N, M]."""
        return self["B"] * self["H"] * self["N"] * self["M"] * self["itemsize"]

    @property
    def lse_bytes(self) -> int:
        """Returns the bytes of the log-sum-exp of each row, float32 [B, H, N]."""
        return self["B"] * self["H"] * self["N"] * 4


def gather(sources: Iterable[Source]) -> AttentionShape:
    """Returns the symbols of all sources; a usual name such as ``heads`` becomes its symbol.

    Values that are not whole numbers (a tensor, a string, a scale) are skipped, and so are numbers
    far too large for a size. Two different values of a symbol raise only when the symbol is read.
    """
    found: dict[str, tuple[int, str]] = {}
    given: set[str] = set()
    conflicts: dict[str, str] = {}
    for source in sources:
        for name, value in source.values.items():
            symbol, number = _symbol(name, value)
            if number is None:
                continue
            if isinstance(value, bool) and symbol in SYMBOLS:
                conflicts[symbol] = (
                    f"symbol {symbol!r} has no size: {name}={value} from {source.label}; give a"
                    " whole number"
                )
            given |= {symbol} - source.assumed
            here = f"{name}={value}" if symbol == name else f"{symbol}={number} ({name}={value})"
            known = found.setdefault(symbol, (number, f"{here} from {source.label}"))
            if known[0] != number:
                conflicts[symbol] = (
                    f"symbol {symbol!r} has two values: {known[1]}, {here} from {source.label}"
                )
    symbols = {name: value for name, (value, _) in found.items()}
    for name, other in DEFAULTS.items():
        if name not in symbols and other in symbols:
            symbols[name] = symbols[other]
            if other in conflicts:
                conflicts[name] = conflicts[other]
    order = {name: place for place, name in enumerate(SYMBOLS)}
    names = sorted(symbols, key=lambda name: (order.get(name, len(order)), name))
    assumed = {name: other for name, other in DEFAULTS.items() if name not in given}
    return AttentionShape({name: symbols[name] for name in names}, conflicts, assumed)


def begun_again(known: Iterable[Source], arguments: Source) -> list[Source]:
    """Returns the sources with other *arguments*, without any that became known after them."""
    return [*takewhile(lambda source: source.label != arguments.label, known), arguments]


def _symbol(name: str, value: object) -> tuple[str, int | None]:
    if name == "dtype":
        try:
            return "itemsize", itemsize_of(value)
        except BudgetError:
            return "itemsize", None
    if isinstance(value, Integral):  # numpy's too, and a bool: causal=True is 1
        number = int(value)
        return ALIASES.get(name, name), None if abs(number) >> MAX_BITS else number
    return name, None
