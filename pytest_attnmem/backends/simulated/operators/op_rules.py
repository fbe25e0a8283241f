"""The rules of all operators, found in the modules of ``scratch``, ``attention``, ``convolution``.

``RULES`` of a module has its rules by operator, ``aten.sort.stable``, or by packet, ``aten.sort``,
which is every overload but ``out=``: its results may have any layout. ``TAKES_COMPLEX`` beside it
says which rules hold for complex tensors too: their names, or True for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType
from typing import Final, NamedTuple

import torch

from ...certification.installed import refusal
from .. import attention, convolution, scratch
from ..scratch.op_plan import AllocationPlan, OpCall, Output, Rule, Unplanned, writes_into_targets
from ..scratch.pointwise import rule_by_kind


class FoundRule(NamedTuple):
    """The rule of an operator."""

    rule: Rule
    module: str
    takes_complex: bool


def plan_by_rules(call: OpCall) -> AllocationPlan | None:
    """Returns what a call allocates and frees on CUDA by its rule; None if no rule knows."""
    rule = _rule_of(call)
    return None if rule is None else rule(call)


def plan(call: OpCall) -> AllocationPlan | None:
    """Returns what a call allocates and frees on CUDA; None if no rule knows.

    Of an operator that is not certified for the installed torch, only the results are known.
    """
    steps = plan_by_rules(call)
    why = refusal(call.op, call.profile) if steps is not None else ""
    if steps is None or not why:
        return steps
    return (*(step for step in steps if isinstance(step, Output)), Unplanned(why))


def program_only(call: OpCall) -> AllocationPlan | None:
    """Returns a plan with the outputs alone, as large as on CUDA, without operators' scratch."""
    steps = plan_by_rules(
        replace(call, cudnn_workspace=None)
    )  # scratch, for which nobody needs to plan
    if steps is None:
        return tuple(map(Output, range(len(call.outputs))))
    return tuple(step for step in steps if isinstance(step, Output))


def collect(modules: Iterable[ModuleType]) -> Mapping[str, FoundRule]:
    """Returns the rules of all modules by operator or packet.

    Raises:
        ValueError: an operator has two rules.
    """
    found: dict[str, FoundRule] = {}
    for module in modules:
        complex_ops = getattr(module, "TAKES_COMPLEX", ())
        for op, rule in getattr(module, "RULES", {}).items():
            if op in found:
                raise ValueError(
                    f"{op} has a rule in {found[op].module} and in {module.__name__}; keep one"
                )
            takes_complex = complex_ops is True or op in complex_ops
            found[op] = FoundRule(rule, module.__name__, takes_complex)
    return MappingProxyType(found)


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for module in iter_modules(package.__path__):  # sorted by name
        yield import_module(f"{package.__name__}.{module.name}")


RULES: Final = collect(
    module for package in (scratch, attention, convolution) for module in _modules(package)
)


def _rule_of(call: OpCall) -> Rule | None:
    packet = call.op.rpartition(".")[0]
    for name in (call.op,) if writes_into_targets(call.op) else (call.op, packet):
        found = RULES.get(name)
        if found is not None:
            return found.rule if found.takes_complex or not _is_complex(call) else None
    return rule_by_kind(call.op)


def _is_complex(call: OpCall) -> bool:
    return any(isinstance(value, torch.Tensor) and value.is_complex() for value in call.args)
