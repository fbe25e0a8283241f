"""Memory complexity as a unit test: hold attention code to an analytic memory budget."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.derive import derive as derive
    from .api.functions import check as check
    from .api.functions import compare as compare
    from .api.functions import growth as growth
    from .api.functions import measure as measure
    from .api.functions import region as region
    from .budgets.growth_fit import Growth as Growth
    from .budgets.memory_model import MemoryModel as MemoryModel
    from .budgets.memory_model import Phase as Phase
    from .closed_forms.derived import Derived as Derived
    from .errors import AttnMemError as AttnMemError
    from .errors import BackendUnavailable as BackendUnavailable
    from .errors import BudgetError as BudgetError
    from .errors import BudgetExceeded as BudgetExceeded
    from .errors import FormulaError as FormulaError
    from .errors import NotEnforced as NotEnforced
    from .errors import SizeError as SizeError
    from .formulas.formula import Formula as Formula
    from .formulas.formula import parse_formula as parse_formula
    from .measurement.held import Held as Held
    from .measurement.measurement import Measurement as Measurement
    from .measurement.qkv_inputs import qkv as qkv
    from .models.model_memory import ModelMemory as ModelMemory
    from .models.model_memory import model as model
    from .symbols.attention_shape import AttentionShape as AttentionShape
    from .units import format_size as format_size
    from .units import parse_size as parse_size

__version__ = "0.2.0"

#: Public name → its module, imported on first use so that importing the plugin is fast.
_HOMES = MappingProxyType(
    {
        "AttentionShape": "symbols.attention_shape",
        "AttnMemError": "errors",
        "BackendUnavailable": "errors",
        "BudgetError": "errors",
        "BudgetExceeded": "errors",
        "Derived": "closed_forms.derived",
        "Formula": "formulas.formula",
        "FormulaError": "errors",
        "Growth": "budgets.growth_fit",
        "Held": "measurement.held",
        "Measurement": "measurement.measurement",
        "MemoryModel": "budgets.memory_model",
        "ModelMemory": "models.model_memory",
        "NotEnforced": "errors",
        "Phase": "budgets.memory_model",
        "SizeError": "errors",
        "check": "api.functions",
        "compare": "api.functions",
        "derive": "api.derive",
        "format_size": "units",
        "growth": "api.functions",
        "measure": "api.functions",
        "model": "models.model_memory",
        "parse_formula": "formulas.formula",
        "parse_size": "units",
        "qkv": "measurement.qkv_inputs",
        "region": "api.functions",
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
