"""Operators beside their rules on the null device, and what a session does on an unknown torch."""

import json
import os
import subprocess
import sys

import pytest
import torch

from pytest_attnmem import measure
from pytest_attnmem.backends.certification import installed
from pytest_attnmem.backends.certification.certifying import compare, matching
from pytest_attnmem.backends.certification.installed import SessionCertifier
from pytest_attnmem.backends.certification.null_process import NullProcess
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import minor_version

H100 = find_profile("H100")
HERE = minor_version(torch.__version__)
OPERATORS = (
    *("native_layer_norm_backward", "_softmax_backward_data", "cumsum", "addmm", "topk"),
    *("_scaled_dot_product_flash_attention", "nonzero", "_foreach_norm", "_fused_sdp_choice"),
)


def test_the_rules_are_those_of_this_torch():
    found = compare(matching(OPERATORS), ["H100", "T4"], HERE)
    assert found.refused == {}
    assert found.calls > 500


@pytest.mark.skipif(HERE != (2, 15), reason="2.15 changed these operators")
def test_the_rules_of_the_version_before_are_refused_where_it_changed_them():
    names = ("mm", "repeat_interleave", "_softmax", "cumsum")
    found = compare(matching(names), ["H100"], (2, 14))
    assert {*found.refused} == {
        *("aten.mm.default", "aten.mm.out", "aten.mm.dtype", "aten.repeat_interleave.Tensor")
    }
    assert found.refused["aten.mm.default"] == (
        "aten.mm.default('float32[64, 64]', 'float32[64, 64]') on H100: out0:16384 t0:33554432 -t0,"
        " and the rule says out0:16384"
    )


#: A process that changes one rule at a time, by 512 bytes of scratch.
MUTATED = """
import json, sys, warnings
from functools import partial
from pytest_attnmem.backends.certification.null_calls import NullCalls
from pytest_attnmem.backends.certification.recipes import lines_by_operator
from pytest_attnmem.backends.null.program import prepare
from pytest_attnmem.backends.simulated.scratch.op_plan import Temporary
from pytest_attnmem.backends.simulated.operators.op_rules import plan_by_rules
from pytest_attnmem.nulldevice.launch import present
warnings.simplefilter("ignore")
prepare(10 ** 12)
changed = ""
def plan(call):
    steps = plan_by_rules(call)
    mutation = Temporary("mutation", 512)
    return (*steps, mutation) if steps is not None and call.op == changed else steps
calls = NullCalls(present().profile, tuple(json.loads(sys.argv[1])), plan, "")
found = {}
for op in sys.argv[2:]:
    lines = lines_by_operator()[op]
    changed = ""
    right = calls.answer(op, lines).differs
    changed = op
    found[op] = [right, bool(calls.answer(op, lines).differs)]
print(json.dumps(found), flush=True)
import os; os._exit(0)
"""


def test_a_changed_rule_is_refused():
    operators = [*matching([*OPERATORS[:-1], "add", "sum", "sort", "index", "native_dropout"])]
    done = subprocess.run(
        [sys.executable, "-c", MUTATED, json.dumps(HERE), *operators],
        env={**os.environ, **environment(H100)}, stdout=-1, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert {op for op, (right, _) in found.items() if right} == set()
    assert {op for op, (_, changed) in found.items() if not changed} == set()


def test_an_operator_without_calls_has_nothing_to_compare():
    with pytest.raises(BackendUnavailable, match=r"^no recorded call is of operator 'no_such'$"):
        matching(["no_such"])


def test_a_session_certifies_the_operators_that_it_uses_and_keeps_the_answers(tmp_path):
    kept = tmp_path / "certified" / "9.9.0.jsonl"
    certifier = SessionCertifier(H100, kept)
    assert certifier.refusal("aten._softmax.default") == ""
    assert certifier.refusal("aten.no_such_operator.default") == ""
    assert [json.loads(line) for line in kept.read_text().splitlines()] == [
        ["aten._softmax.default", ""]
    ]
    kept.write_text('["aten.cumsum.default", "a trace"]\n["aten.cut')
    changed = f"aten.cumsum.default changed in torch {torch.__version__.partition('+')[0]}"
    assert SessionCertifier(H100, kept).refusal("aten.cumsum.default") == (
        f"{changed}; attnmem certify"
    )


def softmax():
    return torch.softmax(torch.ones(64, 64, device="cuda"), -1)


@pytest.fixture
def unknown(monkeypatch, tmp_path):
    """Has an unknown torch be installed, and returns the folder of what a session keeps."""
    monkeypatch.setattr(torch, "__version__", "9.9.0")
    monkeypatch.setattr(installed, "kept_folder", lambda: tmp_path)
    installed._certifier.cache_clear()
    yield tmp_path
    installed._certifier.cache_clear()


def test_a_budget_is_enforced_on_an_unknown_torch(unknown):
    seen = measure(softmax, backend="simulated:H100")
    assert (seen.peak_bytes, seen.unmeasured) == (32768, None)
    (kept,) = unknown.iterdir()
    operators = dict(map(json.loads, kept.read_text().splitlines()))
    assert {"aten._softmax.default", "aten.ones.default"} & operators.keys()
    assert {*operators.values()} == {""}


def test_an_operator_that_an_unknown_torch_changed_is_refused_by_name(unknown):
    kept = installed._certifier(find_profile("A10G"))._kept  # whose calls this process never made
    kept.write_text('["aten._softmax.default", "a trace"]\n')
    installed._certifier.cache_clear()
    seen = measure(softmax, backend="simulated:A10G")
    assert seen.unmeasured == "aten._softmax.default changed in torch 9.9.0; attnmem certify"


def test_a_process_that_ends_is_a_reason():
    process = NullProcess(H100, HERE)
    process._process.kill()
    with pytest.raises(BackendUnavailable, match=r"^the process of the null device ended"):
        process.ask("aten.mm.default")
