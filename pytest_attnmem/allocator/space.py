"""A space of addresses that are used again."""

from __future__ import annotations

from bisect import bisect_left, insort

#: The start and the end of a free stretch of addresses.
Gap = tuple[int, int]


class AddressSpace:
    """A space of addresses that takes the lowest gap that fits, as the null device does."""

    def __init__(self) -> None:
        self._gaps: list[Gap] = []  # below the end, not adjacent, ascending
        self._end = 0  # every address from here on is free

    def take(self, nbytes: int) -> int:
        """Returns the address of that many bytes."""
        for start, end in self._gaps:
            if end - start >= nbytes:
                self._gaps.remove((start, end))
                if end - start > nbytes:
                    insort(self._gaps, (start + nbytes, end))
                return start
        address = self._end
        self._end += nbytes
        return address

    def give_back(self, address: int, nbytes: int) -> None:
        """Frees the bytes at an address that ``take`` returned."""
        start, end = address, address + nbytes
        index = bisect_left(self._gaps, (start, end))
        if index < len(self._gaps) and self._gaps[index][0] == end:
            end = self._gaps.pop(index)[1]
        if index and self._gaps[index - 1][1] == start:
            start = self._gaps.pop(index - 1)[0]
        if end == self._end:
            self._end = start
        else:
            insort(self._gaps, (start, end))
