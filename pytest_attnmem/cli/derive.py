"""Derive the closed form of a function's peak memory from its code."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from ..api.derive import derive
from ..closed_forms.derived import Derived, Holder, Term
from ..errors import BudgetError, SizesError
from ..measurement.qkv_inputs import dtype_of
from ..models.sources import assigned, named_object
from ..units import format_count
from .kernel_workload import size_of
from .terminal import answer, progress

_LENGTHS = "N=512,1024,1536,2048"
#: The most tensors that are listed below a term.
_HOLDERS = 12
#: The most live sets whose tensors are listed; of more, those of the first are.
_LISTED = 2


def add_arguments(parser: ArgumentParser) -> None:
    """``pkg.mod:fn "B H N d" "B H M d" "B H M d" --backward --dtype float16``."""
    parser.add_argument(
        "function", metavar="pkg.mod:fn", help="a function, or an instance of nn.Module"
    )
    parser.add_argument("shapes", nargs="*", metavar='"B H N d"', help="the shape of each argument")
    parser.add_argument("--backward", action="store_true", help="run forward and backward")
    parser.add_argument(
        "--dtype", default="float32", help="dtype of the arguments (default: float32)"
    )
    parser.add_argument(
        "--device",
        default="",
        metavar="PROFILE",
        help="include the scratch memory of this device's kernels",
    )
    parser.add_argument(
        "--sizes",
        action="append",
        default=[],
        metavar="N=512,1024,…",
        help="run at these sizes of a symbol; repeat the option for other symbols",
    )
    parser.add_argument(
        "--number",
        action="append",
        default=[],
        metavar="layers=1,2,3",
        help="a keyword of the function that changes it, such as its layers, and values to run;"
        " the peak is proved linear in it",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(arguments: Namespace) -> int:
    """Prints the formula, and the tensors behind each term.

    Raises:
        AttnMemError: the function cannot be found or run, or its peak has no formula.
    """
    backend = f"simulated:{arguments.device}" if arguments.device else "simulated"
    try:
        with progress(f"deriving {arguments.function}"):
            found = derive(
                named_object(arguments.function),
                *arguments.shapes,
                dtype=dtype_of(arguments.dtype, "--dtype"),
                backward=arguments.backward,
                backend=backend,
                sizes=dict(_sizes("sizes", _LENGTHS, text) for text in arguments.sizes),
                **dict(_sizes("number", "layers=1,2,3", text) for text in arguments.number),
            )
    except SizesError as error:
        problem = f"{error.problem}: --sizes {_LENGTHS}"
        raise BudgetError(problem) from error.__cause__
    answer(arguments.json, lambda: to_dict(found), lambda: render(found))
    return 0


def render(found: Derived) -> list[str]:
    """Returns the formula, and the live sets whose maximum it is, tensor by tensor."""
    lines = [str(found), f"  {found.how}"]
    shown = found.candidates[: 1 if len(found.candidates) > _LISTED else _LISTED]
    held = [one for each in shown for term in each.terms for one in term.held[:_HOLDERS]]
    tensors = max((len(_tensor(holder)) for holder in held), default=0)
    ops = max((len(holder.op) for holder in held), default=0)
    for number, candidate in enumerate(found.candidates):
        if len(found.candidates) > 1:
            lines.append(f"  {candidate.polynomial}   {candidate.region}".rstrip())
        if number and len(found.candidates) > _LISTED:
            continue
        for term in candidate.terms:
            lines.append(f"    {term.text}")
            lines += [
                f"      {_tensor(holder):{tensors}}  {holder.op:{ops}}  {holder.where}".rstrip()
                for holder in term.held[:_HOLDERS]
            ]
            if rest := len(term.held[_HOLDERS:]):
                lines.append(f"      and {format_count(rest, 'more kind')} of tensors")
    limits = [f"{name} >= {size}" for name, size in found.least.items()]
    limits += [f"{name} <= {size}" for name, size in found.most.items()]
    limits += [f"multiples of {step} of {name}" for name, step in found.steps.items()]
    if limits:
        lines.append(f"  holds for {', '.join(limits)}")
    return lines


def _tensor(holder: Holder) -> str:
    """Returns ``2 × [B, N] float32``."""
    tensor = f"{holder.shape or ('' if holder.scratch else '[]')} {holder.dtype}".strip()
    count = f"({holder.count})" if " " in holder.count else holder.count
    return tensor if count == "1" else f"{count} × {tensor}".rstrip()


def to_dict(found: Derived) -> dict[str, Any]:
    """Returns the result as JSON values."""
    return {
        "formula": str(found),
        "how": found.how,
        "scratch": str(found.scratch),
        "least": dict(found.least),
        "most": dict(found.most),
        "steps": dict(found.steps),
        "candidates": [
            {
                "formula": str(candidate.polynomial),
                "region": candidate.region,
                "terms": [_term(term) for term in candidate.terms],
            }
            for candidate in found.candidates
        ],
    }


def _term(term: Term) -> dict[str, Any]:
    held = [asdict(holder) for holder in term.held]
    for holder in held:
        del holder["scratch"]  # ``op`` ends in ``(scratch)``
    return {"text": term.text, "held": held}


def _sizes(option: str, example: str, text: str) -> tuple[str, list[int]]:
    name, values = assigned(f"--{option}", text, example)
    return name, [size_of(option, value) for value in values.split(",")]
