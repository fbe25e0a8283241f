"""Compiled functions: they are compiled before a window, run eagerly, and their graphs named."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any

from ..budgets.verdict import Outcome, Verdict
from ..units import excerpt, format_count

#: The attribute of each function and module that ``torch.compile`` returns.
_MARK = "_torchdynamo_orig_callable"
_LEVELS = 2  # lambda: step(compiled)
_MOST = 120


def warmup_of(fn: Callable[..., Any], warmup: int) -> int:
    """Returns the runs before a measurement: at least one if ``fn`` calls compiled code."""
    return max(warmup, 1) if _is_compiled(fn, _LEVELS) else warmup


def _is_compiled(value: object, levels: int) -> bool:
    """Returns True for compiled code, and for a function that names it or closes over it."""
    if hasattr(value, _MARK):
        return True
    if levels == 0:
        return False
    return any(_is_compiled(used, levels - 1) for used in _used(value))


def _used(value: object) -> Iterator[object]:
    if isinstance(value, partial):
        yield from (value.func, *value.args)
    if not isinstance(value, FunctionType):
        return
    for cell in value.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    for name in value.__code__.co_names:
        yield value.__globals__.get(name)


def run_eagerly() -> AbstractContextManager[Any]:
    """Returns a context in which compiled functions run as the code that they were made of."""
    from torch.compiler import set_stance

    stance: AbstractContextManager[Any] = set_stance("force_eager")
    return stance


class Compilations:
    """The graphs that were compiled since it was made, with breaks and recompilations."""

    def __init__(self) -> None:
        self._before = _counted()

    def named(self, verdict: Verdict) -> Verdict:
        """Returns the verdict; a text about compiled code is added to one that is over."""
        text = self.text()
        if verdict.outcome is not Outcome.OVER or not text:
            return verdict
        return replace(verdict, reason=f"{verdict.reason}; {text}")

    def text(self) -> str:
        """Returns ``3 graphs; graph break: …``; empty if nothing was compiled."""
        found = _counted()
        found.subtract(self._before)
        graphs = found.pop("", 0)
        if not graphs:
            return ""
        parts = [format_count(graphs, "graph")]
        parts += [excerpt(text, _MOST) for text, count in found.items() if count > 0]
        return "; ".join(parts)


def _counted() -> Counter[str]:
    """Returns the number of graphs, under an empty text, and of each break and recompilation.

    The counters are those of torch/_dynamo/utils.py.
    """
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    found: Counter[str] = Counter()
    if dynamo is None:
        return found
    found[""] = dynamo.counters["stats"]["unique_graphs"]
    for reason, count in dynamo.counters["graph_break"].items():
        found[f"graph break: {reason.partition(chr(10))[0]}"] += count
    for code, failures in dynamo.guard_failures.items():
        for failure in failures:
            why = str(failure).partition(": ")[2] or str(failure)
            found[f"compiled again: {code.co_name}: {why}"] += 1
    return found
