"""Certifies operators in a process under the null runtime: ``python -m …server 2.15``.

It reads the name of an operator a line, and answers with a line of JSON. What PyTorch prints goes
to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import asdict
from typing import Any

from ...leave import leave
from ...measurement.values_limit import VALUES_LIMIT, parse_values_limit
from ...nulldevice import torch_build
from ...nulldevice.launch import present
from ..null.program import prepare
from .recipes import lines_by_operator


def main(rules: str) -> None:
    """Serves until standard input ends; the plans are those of the version ``rules``."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")

    def tell(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    devices = present()
    if devices is None:
        tell({"refused": "this process does not run under the null runtime"})
        return
    prepare(parse_values_limit(VALUES_LIMIT))
    from ..simulated.operators.op_rules import plan_by_rules
    from .null_calls import NullCalls

    major, minor = map(int, rules.split("."))
    calls = NullCalls(devices.profile, (major, minor), plan_by_rules, torch_build.find().cudnn_name)
    lines = lines_by_operator()
    tell({"ready": True})
    for word in sys.stdin:
        op = word.strip()
        tell(asdict(calls.answer(op, lines.get(op, ()))))
    answers.flush()
    leave(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
