"""The terms and lines of a change: two sessions that list their tensors, compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..baselines.entries import Entry
from ..baselines.file import load
from ..baselines.regression_text import difference
from ..errors import AttnMemError
from ..formulas.polynomial import Polynomial, expand
from .warm_process import Row, Sample, from_root

#: The options of a fast session: no second run to see who holds memory.
PLAIN: Final = ("--attnmem-explain=off",)
#: Those of a session that lists the tensors of every test, and derives closed forms.
LISTING: Final = ("--attnmem-explain=all", "--attnmem-update=all")


def entries(path: Path, sample: Sample) -> dict[Row, Entry]:
    """Returns the entries that a session wrote, by row; empty if it wrote none.

    Raises:
        AttnMemError: the file cannot be read.
    """
    if not path.exists():
        return {}
    return {
        (from_root(sample.rootdir, key.test), key.region, key.metric): entry
        for key, entry in load(path).items()
    }


def terms(row: Row, old: Mapping[Row, Entry], new: Mapping[Row, Entry], sample: Sample) -> str:
    """Returns ``+4*B*H*N^2: one more float32 [B, H, N, N], masked_fill at attn.py:14``.

    Empty if it is not proved which tensors make the change. ``sample`` is of the newer session.
    """
    before, after, record = old.get(row), new.get(row), sample.rows.get(row)
    if before is None or after is None or record is None:
        return ""
    symbols = record.shape
    change = difference(before, after.nbytes, _form(after), symbols, record.held, symbols)
    return change.text


def _form(entry: Entry) -> Polynomial | None:
    try:
        return expand(entry.formula) if entry.formula else None
    except AttnMemError:
        return None
