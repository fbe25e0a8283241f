"""Memory complexity as a unit test: hold attention code to an analytic memory budget."""

from __future__ import annotations

import sys
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .closed_form import Derived as Derived
    from .derive import derive as derive
    from .errors import AttnMemError as AttnMemError
    from .errors import BackendUnavailable as BackendUnavailable
    from .errors import BudgetError as BudgetError
    from .errors import BudgetExceeded as BudgetExceeded
    from .errors import FormulaError as FormulaError
    from .errors import SizeError as SizeError
    from .formula import Formula as Formula
    from .formula import parse_formula as parse_formula
    from .functions import check as check
    from .functions import compare as compare
    from .functions import growth as growth
    from .functions import measure as measure
    from .functions import region as region
    from .growth import Growth as Growth
    from .inputs import qkv as qkv
    from .measurement import Held as Held
    from .measurement import Measurement as Measurement
    from .model import MemoryModel as MemoryModel
    from .model import Phase as Phase
    from .shape import AttentionShape as AttentionShape
    from .units import format_size as format_size
    from .units import parse_size as parse_size

__version__ = "0.1.0"

#: Where each public name lives; resolved on first use, so that importing the plugin stays light.
_HOMES = MappingProxyType(
    {
        "AttentionShape": "shape",
        "AttnMemError": "errors",
        "BackendUnavailable": "errors",
        "BudgetError": "errors",
        "BudgetExceeded": "errors",
        "Derived": "closed_form",
        "Formula": "formula",
        "FormulaError": "errors",
        "Growth": "growth",
        "Held": "measurement",
        "Measurement": "measurement",
        "MemoryModel": "model",
        "Phase": "model",
        "SizeError": "errors",
        "check": "functions",
        "compare": "functions",
        "derive": "derive",
        "format_size": "units",
        "growth": "functions",
        "measure": "functions",
        "parse_formula": "formula",
        "parse_size": "units",
        "qkv": "inputs",
        "region": "functions",
    }
)

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


class _Package(ModuleType):
    """A package whose module ``measure``, once imported, does not take the function's place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
