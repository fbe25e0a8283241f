"""A test at other sizes of its arguments, to see how its memory grows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .contract import Contract
from .errors import AttnMemError, BudgetError, StartAgain
from .growth import ENOUGH, Growth, known, smaller
from .measure import window
from .measurement import Measurement
from .second_run import rewind, untold
from .shape import ALIASES
from .units import shown

if TYPE_CHECKING:
    import pytest

    from .api import AttnMem
    from .instrument import Instrument


def variable(item: pytest.Item, contract: Contract) -> dict[str, str]:
    """Symbol of the contract → the argument of the test that can be given other sizes.

    Raises:
        BudgetError: there is none; the text says why, and what would be one.
    """
    info = getattr(item, "_fixtureinfo", None)
    names = {ALIASES.get(name, name): name for name in (info.argnames if info is not None else ())}
    wanted = {symbol: names[symbol] for symbol in sorted(contract.symbols) if symbol in names}
    made = {} if info is None else info.name2fixturedefs
    shared = {
        symbol: next((f for f, defs in made.items() if name in defs[-1].argnames), "")
        for symbol, name in wanted.items()
    }
    free = {symbol: name for symbol, name in wanted.items() if not shared[symbol]}
    if free:
        return free
    for symbol, fixture in shared.items():
        raise BudgetError(
            f"contract {contract} varies {symbol}, which goes to the fixture {fixture!r} as well,"
            " and that is made once; take it in the test alone"
        )
    symbols = sorted(contract.symbols)
    raise BudgetError(
        f"contract {contract} needs an argument of the test to vary: {' or '.join(symbols)};"
        f" write @pytest.mark.parametrize({symbols[0]!r}, [2048]) and take {symbols[0]}"
    )


class Probe:
    """Runs a test's body at smaller sizes; regions and checks in it do not raise."""

    def __init__(self, item: pytest.Item, memory: AttnMem, instrument: Instrument) -> None:
        self._item = item
        self._memory = memory
        self._instrument = instrument

    def grow(self, contract: Contract, metric: str, own: Measurement) -> list[Growth]:
        """The growth along each symbol that can be varied, up to the test's own size.

        Raises:
            AttnMemError: a size is too small to vary, or the test does not run at another.
        """
        return [
            self._along(symbol, name, metric, own)
            for symbol, name in variable(self._item, contract).items()
        ]

    def look(self, symbols: Iterable[str], metric: str, own: Measurement) -> tuple[Growth, ...]:
        """The growth along those of the symbols that the test takes; empty where it does not run.

        For an explanation, which must not be what fails the test.
        """
        wanted = tuple(((symbol, 1),) for symbol in sorted(symbols))
        try:
            return tuple(self.grow(Contract("", wanted), metric, own)) if wanted else ()
        except AttnMemError:
            return ()

    def _along(self, symbol: str, name: str, metric: str, own: Measurement) -> Growth:
        size = getattr(self._item, "funcargs", {}).get(name)
        if not isinstance(size, int) or isinstance(size, bool):
            raise BudgetError(f"{name}={shown(size)} is no size to vary")
        peaks = {size: known(own, metric)}
        for other in smaller(size):
            peaks[other] = known(self.at({name: other})[""], metric)
        growth = _growth(symbol, peaks, metric)
        if growth.polynomial is not None:
            return growth
        # Small sizes may be in a regime of their own: look closer to the test's.
        block = next((power for power in (128, 64, 32, 16, 8, 4, 2) if size >= 16 * power), 1)
        for sixteenths in (12, 13, 14, 15):
            other = size * sixteenths // 16 // block * block
            if other not in peaks:
                peaks[other] = known(self.at({name: other})[""], metric)
        ordered = sorted(peaks)
        for start in range(len(ordered) - ENOUGH + 1):
            closer = _growth(symbol, {size: peaks[size] for size in ordered[start:]}, metric)
            if closer.polynomial is not None:
                return closer
        return _growth(symbol, peaks, metric)

    def at(self, sizes: Mapping[str, int]) -> dict[str, Measurement]:
        """What the test, under no name, and its regions need with these arguments.

        Raises:
            AttnMemError: the test does not run with them.
        """
        try:
            return self._at(sizes)
        except StartAgain:
            return self._at(sizes)

    def _at(self, sizes: Mapping[str, int]) -> dict[str, Measurement]:
        opened = None
        with untold(self._item), self._memory.rehearsal() as regions, _given(self._item, sizes):
            try:
                rewind(self._item)
                # Reserved bytes count from an emptied cache; the other metrics do not mind.
                with window(self._instrument.backend, "reserved") as opened:
                    self._item.runtest()
            except (KeyboardInterrupt, AttnMemError, StartAgain):
                raise
            except BaseException as error:
                raise BudgetError(
                    f"the test raised {shown(error, 160)} at {_listed(sizes)}, where its growth is"
                    " looked at; let it take other sizes"
                ) from error
        if opened.measurement is None:
            raise BudgetError(f"nothing was measured at {_listed(sizes)}")
        return {**regions, "": opened.measurement}


def _growth(symbol: str, peaks: dict[int, int], metric: str) -> Growth:
    ordered = tuple(sorted(peaks))
    return Growth({symbol: ordered}, {(size,): peaks[size] for size in ordered}, metric)


def _listed(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{ALIASES.get(name, name)}={size}" for name, size in sizes.items())


@contextmanager
def _given(item: Any, sizes: Mapping[str, int]) -> Iterator[None]:
    """With other values for arguments of the test."""
    before = {name: item.funcargs[name] for name in sizes}
    item.funcargs.update(sizes)
    try:
        yield
    finally:
        item.funcargs.update(before)
