"""The rules of operators, found in the modules of three folders."""

from pathlib import Path
from types import MappingProxyType, ModuleType

import pytest
import torch

from pytest_attnmem.backends.simulated.operators import op_rules
from pytest_attnmem.backends.simulated.operators.op_rules import RULES, collect, plan
from pytest_attnmem.backends.simulated.scratch.op_plan import OpCall
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import KNOWN

FOLDER = Path(op_rules.__file__).parents[1]


def module(name, **attributes):
    made = ModuleType(name)
    vars(made).update(attributes)
    return made


def rule(call):
    return ()


def test_every_module_with_rules_is_found():
    written = {
        f"{op_rules.__package__.rpartition('.')[0]}.{folder}.{path.stem}"
        for folder in ("scratch", "attention", "convolution")
        for path in (FOLDER / folder).glob("*.py")
        if "\nRULES: Final" in path.read_text("utf-8")
    }
    assert {found.module for found in RULES.values()} == written
    assert len(written) > 12


def test_the_rules_are_in_a_fixed_order_and_frozen():
    assert isinstance(RULES, MappingProxyType)
    packages = (op_rules.scratch, op_rules.attention, op_rules.convolution)
    again = collect(module for package in packages for module in op_rules._modules(package))
    assert [*again.items()] == [*RULES.items()]


def test_a_module_needs_nothing_but_its_rules():
    found = collect([module("empty"), module("one", RULES={"aten.a": rule})])
    assert {op: entry.rule for op, entry in found.items()} == {"aten.a": rule}
    assert not found["aten.a"].takes_complex
    complex_too = collect([module("two", RULES={"aten.a": rule}, TAKES_COMPLEX=True)])
    assert complex_too["aten.a"].takes_complex


def test_an_operator_with_two_rules_is_refused_by_name():
    twice = [module(name, RULES={"aten.a": rule}) for name in ("one", "two")]
    with pytest.raises(ValueError, match=r"^aten\.a has a rule in one and in two; keep one$"):
        collect(twice)


@pytest.mark.parametrize(
    ("op", "dtype", "known"),
    [
        ("aten.sum.default", torch.float32, True),  # the rule of its packet
        ("aten.sum.out", torch.float32, False),
        ("aten.sum.default", torch.complex64, False),
        ("aten.clone.default", torch.complex64, True),
        ("aten.sin.default", torch.complex64, True),  # no rule, but tagged pointwise
    ],
)
def test_the_rule_of_a_call(op, dtype, known):
    x = torch.ones(3, dtype=dtype)
    call = OpCall(op, (x,), {}, (x.clone(),), find_profile("H100"), False, KNOWN[0])
    assert (plan(call) is not None) == known
