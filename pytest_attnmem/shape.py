"""The symbols of an attention and the sizes they give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from types import MappingProxyType

from .arithmetic import MAX_BITS
from .errors import BudgetError
from .suggestion import closest, did_you_mean, product
from .units import shown

#: Pytest shows where the test called, and not our frames below it.
__tracebackhide__ = True

#: Batch, query heads, key/value heads, query length, key/value length, head dims, bytes an element.
SYMBOLS = ("B", "H", "Hkv", "N", "M", "d", "dv", "itemsize")

#: What a symbol is where nothing says otherwise.
DEFAULTS: Mapping[str, str] = MappingProxyType({"Hkv": "H", "M": "N", "dv": "d"})

#: The field's usual names of a test's arguments.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "batch": "B",
        "batch_size": "B",
        "bsz": "B",
        "heads": "H",
        "num_heads": "H",
        "n_heads": "H",
        "nheads": "H",
        "q_heads": "H",
        "num_q_heads": "H",
        "num_attention_heads": "H",
        "kv_heads": "Hkv",
        "num_kv_heads": "Hkv",
        "n_kv_heads": "Hkv",
        "num_key_value_heads": "Hkv",
        "seq_len": "N",
        "seqlen": "N",
        "seq_length": "N",
        "sequence_length": "N",
        "q_len": "N",
        "query_len": "N",
        "kv_len": "M",
        "k_len": "M",
        "key_len": "M",
        "head_dim": "d",
        "dim_head": "d",
        "v_head_dim": "dv",
        "value_dim": "dv",
    }
)

#: Bytes of one element, by the names torch and numpy print and the field's short ones.
ITEMSIZES: Mapping[str, int] = MappingProxyType(
    {
        "float64": 8, "double": 8, "fp64": 8, "complex64": 8, "int64": 8,
        "float32": 4, "float": 4, "fp32": 4, "int32": 4,
        "float16": 2, "half": 2, "fp16": 2, "bfloat16": 2, "bf16": 2, "int16": 2,
        "float8_e4m3fn": 1, "float8_e5m2": 1, "fp8": 1, "int8": 1, "uint8": 1, "bool": 1,
        "complex128": 16,
    }
)  # fmt: skip


def itemsize_of(dtype: object) -> int:
    """Bytes of one element of ``dtype``: a torch or numpy dtype, or its name.

    Raises:
        BudgetError: the name is not one of :data:`ITEMSIZES`.
    """
    size = getattr(dtype, "itemsize", None)
    if isinstance(size, int) and not size >> MAX_BITS:
        return size
    name = (dtype if isinstance(dtype, str) else shown(dtype)).removeprefix("torch.")
    if name not in ITEMSIZES:
        raise BudgetError(
            f"unknown dtype {shown(name)}; expected a torch dtype or one of {', '.join(ITEMSIZES)}"
        )
    return ITEMSIZES[name]


@dataclass(frozen=True, slots=True)
class Source:
    """Where symbols got their values: a label for messages, and name → value as found there."""

    label: str
    values: Mapping[str, object]
    assumed: frozenset[str] = frozenset()
    """The names in ``values`` that nobody gave, such as an M that ``qkv`` sets to N."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The resolved symbols of one test: ``shape.N``, ``shape["N"]``, ``shape.scores_bytes``.

    Reading a symbol that has no value, or that two sources give different values, raises
    :class:`BudgetError` and names it.
    """

    symbols: Mapping[str, int]
    conflicts: Mapping[str, str] = field(default_factory=dict)
    assumed: Mapping[str, str] = field(default_factory=dict)
    """Symbol that nobody gave → the symbol that it has its value from: ``M`` → ``N``."""

    def __getitem__(self, name: str) -> int:
        """The value of a symbol, by its own name or by one of the field's (``heads``)."""
        return self.read([name])[name]

    def read(self, names: Iterable[str]) -> dict[str, int]:
        """The values of several symbols.

        Raises:
            BudgetError: some have none, all of which are named; or one has two.
        """
        values: dict[str, int] = {}
        missing = []
        for name in names:
            symbol = name if name in self.symbols else ALIASES.get(name, name)
            if symbol in self.conflicts:
                raise BudgetError(self.conflicts[symbol])
            if symbol in self.symbols:
                values[name] = self.symbols[symbol]
            else:
                missing.append(name)
        if missing:
            raise BudgetError(self._lacking(missing))
        return values

    def _lacking(self, missing: list[str]) -> str:
        known = ", ".join(f"{name}={value}" for name, value in self.symbols.items()) or "none"
        quoted = ", ".join(map(shown, missing))
        which = f"symbol {quoted} has" if len(missing) == 1 else f"symbols {quoted} have"
        keywords = ", ".join("dtype=…" if name == "itemsize" else f"{name}=…" for name in missing)
        first, others = missing[0], {*SYMBOLS, *self.symbols} - {*missing}
        together = product(first) if first not in SYMBOLS else ""
        hint = f"; did you mean {together}?" if together else did_you_mean(first, others, 0.75)
        return (
            f"{which} no value (known: {known}); pass {keywords} with the limit, name a test"
            f" argument so, or make the inputs with the fixture qkv{hint}"
        )

    def source(self, name: str) -> str:
        """Returns the symbol that a name has its value from: N for seq_len and an assumed M."""
        symbol = name if name in SYMBOLS else ALIASES.get(name, name)
        return self.assumed.get(symbol, symbol)

    def __getattr__(self, name: str) -> int:
        """The value of a symbol, as an attribute."""
        if name.startswith("__"):
            raise AttributeError(name)
        sizes = [size for size in dir(type(self)) if size.endswith("_bytes")]
        if name not in self.symbols and (size := closest(name, sizes, 0.75)):
            raise BudgetError(f"a shape has no attribute {name!r}; did you mean {size!r}?")
        return self[name]

    @property
    def q_bytes(self) -> int:
        """[B, H, N, d]."""
        return self["B"] * self["H"] * self["N"] * self["d"] * self["itemsize"]

    @property
    def k_bytes(self) -> int:
        """[B, Hkv, M, d]."""
        return self["B"] * self["Hkv"] * self["M"] * self["d"] * self["itemsize"]

    @property
    def v_bytes(self) -> int:
        """[B, Hkv, M, dv]."""
        return self["B"] * self["Hkv"] * self["M"] * self["dv"] * self["itemsize"]

    @property
    def out_bytes(self) -> int:
        """[B, H, N, dv]."""
        return self["B"] * self["H"] * self["N"] * self["dv"] * self["itemsize"]

    @property
    def scores_bytes(self) -> int:
        """[B, H, N, M]."""
        return self["B"] * self["H"] * self["N"] * self["M"] * self["itemsize"]

    @property
    def lse_bytes(self) -> int:
        """One float32 row vector, [B, H, N]."""
        return self["B"] * self["H"] * self["N"] * 4


def gather(sources: Iterable[Source]) -> AttentionShape:
    """The symbols that ``sources`` give, under their own names and under the field's.

    Values that are not whole numbers (a tensor, a string, a scale) are no symbols and are passed
    over, as are numbers that no size comes near. A disagreement is kept, and raised when the symbol
    is read: it matters only where used.
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
