"""Measure a whole model without a device: its peak, module by module, and what fits."""

from __future__ import annotations

import gc
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ..errors import BackendUnavailable
from ..measurement.environment import describe
from ..measurement.garbage import anything_frozen
from ..measurement.held import Held
from ..measurement.qkv_inputs import dtype_of
from ..measurement.tensor_groups import ROLES, general
from ..measurement.timeline import Allocation, Timeline
from ..measurement.values_limit import VALUES_LIMIT, parse_values_limit
from ..models.breakdown import OUTSIDE, folded, table_of
from ..models.model_memory import ModelMemory, ModelRun
from ..profiles import DEFAULT_PROFILE, find_profile
from ..report import check_output_path, write
from ..report.html import render
from ..report.origin import origin
from ..report.record import record
from ..report.summary import summarise
from ..units import format_size
from .kernel_workload import size_of
from .terminal import progress

#: The longest sequence and the largest batch that are tried.
_LIMITS: Final = (("longest", "N", 1 << 27), ("largest_batch", "B", 1 << 20))


def add_arguments(parser: ArgumentParser) -> None:
    """``pkg.mod:build --B 1 --N 2048 --train adamw --dtype bf16 --device H200``."""
    add = parser.add_argument
    parser.epilog = (
        "Two steps of training run, because the optimizer's state exists only after the first. The"
        " model is built in --dtype. Inference runs without gradients; the last token's logits are"
        " computed, as generate() does, where the model can. The loss is the model's own, else the"
        " cross entropy of logits and tokens, else the mean of the output."
    )
    add("source", metavar="SOURCE", help="pkg.mod:build, or transformers:LlamaForCausalLM")
    add("--config", default="", metavar="PATH", help="config.json of a transformers model")
    for name, metavar, text in (
        ("arg", "name=value", "an argument of build, or an entry of the config"),
        ("input", "name=dtype[B,N]<vocab", "an input, x=float[B,N,512] for example"),
        ("size", "NAME=SIZE", "a symbol of the inputs besides B and N"),
    ):
        add(f"--{name}", action="append", default=[], metavar=metavar,
            help=f"{text}; may be repeated")  # fmt: skip
    add("--B", default="1", metavar="SIZE", help="batch (default: 1)")
    add("--N", default="1024", metavar="SIZE", help="tokens (default: 1024)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--train", default="", metavar="OPTIMIZER", help="adamw, sgd or pkg.mod:fn")
    what.add_argument("--prefill", action="store_true", help="read a prompt (the default)")
    what.add_argument("--decode", action="store_true", help="read a prompt, then make tokens")
    add("--new-tokens", default="16", metavar="T", help="the tokens of --decode (default: 16)")
    add("--dtype", default="float32", help="dtype of the weights (default: float32)")
    add("--autocast", default="", metavar="DTYPE", help="run the forward pass under autocast")
    add("--checkpoint", action="store_true", help="recompute layers in the backward pass")
    add("--accumulate", default="1", metavar="K", help="micro-batches of a step (default: 1)")
    add("--sdpa", default="", metavar="BACKEND", help="pin SDPA to flash, efficient or math")
    add("--loss", default="", metavar="pkg.mod:fn", help="the loss, a function of the output")
    add("--device", default=DEFAULT_PROFILE, metavar="PROFILE", help="such as H200")
    add("--backend", default="", choices=["", "null", "simulated"], metavar="null|simulated",
        help="default: null where it runs")  # fmt: skip
    add("--longest", action="store_true", help="find the longest N that fits")
    add("--largest-batch", action="store_true", help="find the largest B that fits")
    add("--html", default="", metavar="PATH", help="write a page: what is alive, by module")
    add("--json", action="store_true", help="print the result as JSON")


def execute(arguments: Namespace) -> int:
    """Prints the peak and what fits, the table of modules and terms, and the tensors.

    Raises:
        AttnMemError: the model cannot be made or run, or the backend is not available.
    """
    with progress("importing torch") as show, _few_collections() as freeze:
        lines, code = _lines(arguments, freeze, show)
    print("\n".join(lines))
    return code


@contextmanager
def _few_collections() -> Iterator[Callable[[], None]]:
    """Turns automatic garbage collection off, as measured windows do; yields what freezes imports.

    An import of torch and transformers makes millions of objects, and collections that find none
    of them dead take a quarter of its time. Each window collects, and then visits them all again,
    unless they are frozen.
    """
    collecting, frozen = gc.isenabled(), anything_frozen()
    gc.disable()
    try:
        yield (lambda: None) if frozen else gc.freeze
    finally:
        if not frozen:
            gc.unfreeze()
        if collecting:
            gc.enable()


def _lines(
    arguments: Namespace, freeze: Callable[[], None], show: Callable[[str], None]
) -> tuple[list[str], int]:
    """Returns what to print, and the exit code."""
    check_output_path("html", arguments.html)
    backend = _backend(arguments)
    from ..backends.primed_backend import open_primed
    from ..models.sources import source_of
    from ..models.table import render, to_dict

    recipe = _recipe(arguments)
    source = source_of(arguments.source, arguments.arg, arguments.config)
    run = ModelRun(source, recipe, open_primed(backend))
    freeze()
    try:
        show(f"measuring {arguments.source}")
        found = run.memory()
        show(f"the peak is {format_size(found.peak_bytes)}; searching")
        searches = tuple(
            run.largest(symbol, limit, show)
            for option, symbol, limit in _LIMITS
            if getattr(arguments, option)
        )
        capacity = find_profile(arguments.device).memory_bytes
        if arguments.html:
            name = arguments.source + (f" {arguments.config}" if arguments.config else "")
            write(Path(arguments.html), page(name, run, found))
    finally:
        if backend.startswith("null"):
            from ..backends.null.program import settle

            settle()
    if arguments.json:
        lines = [json.dumps(to_dict(found, capacity, searches), indent=1, ensure_ascii=False)]
    else:
        lines = render(found, capacity, searches)
    return lines, 0 if found.fits else 1


def _backend(arguments: Namespace) -> str:
    """Returns the backend; puts the process on the null device where that is chosen."""
    from ..nulldevice.launch import active, devices, load, may_load, reexec

    if arguments.backend != "simulated":
        try:
            if not active():
                # A search runs out of memory on purpose, and PyTorch warns each time.
                os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
                wanted = devices(arguments.device)
                if may_load():
                    load(wanted)
                else:
                    reexec([sys.executable, "-m", "pytest_attnmem.cli", *sys.argv[1:]], wanted)
            from ..backends.null.program import prepare

            prepare(parse_values_limit(VALUES_LIMIT))
            return "null"
        except BackendUnavailable:
            if arguments.backend == "null":
                raise
    return f"simulated:{find_profile(arguments.device).name}"


def _recipe(arguments: Namespace) -> Any:
    from ..models.inputs import Recipe, parse_inputs
    from ..models.sources import assigned, named_object

    sizes = {name: size_of(name, getattr(arguments, name)) for name in ("B", "N")}
    for text in arguments.size:
        name, value = assigned("--size", text, "S=1500")
        sizes[name] = size_of(f"size {name}", value)
    train = arguments.train
    return Recipe(
        train=named_object(train) if ":" in train else train,
        dtype=_dtype(arguments.dtype, "--dtype"),
        autocast=_dtype(arguments.autocast, "--autocast") if arguments.autocast else "",
        checkpoint=arguments.checkpoint,
        accumulate=size_of("accumulate", arguments.accumulate),
        new_tokens=size_of("new-tokens", arguments.new_tokens) if arguments.decode else 0,
        sdpa=arguments.sdpa,
        loss=named_object(arguments.loss) if arguments.loss else None,
        inputs=parse_inputs(arguments.input),
        sizes=sizes,
    )


def _dtype(name: str, option: str) -> str:
    return str(dtype_of(name, option)).removeprefix("torch.")


def page(name: str, run: ModelRun, found: ModelMemory) -> str:
    """Returns the page of one model: its peak, the largest tensors, and the timeline by module."""
    measured = replace(
        found.measurement,
        held=tuple(
            replace(part.held, op=": ".join(filter(None, (general(part.module), part.held.op))))
            for part in sorted(found.parts, key=lambda part: -part.held.nbytes)
        ),
        timeline=by_module(run.timeline(), found),
    )
    row = record(name, str(found.recipe), None, measured, found.sizes)
    facts = {**describe(), **origin(Path.cwd())}
    return render(summarise([row]), facts)


def by_module(life: Timeline | None, found: ModelMemory) -> Timeline | None:
    """Returns the timeline with a layer for each module, and each module's weights under it."""
    if life is None:
        return None
    weights = [part for part in found.parts if part.term == "weights"]
    below = [
        Allocation(Held(row.total(), (), "weights", module, ""), 0, None)
        for module, row in table_of(weights).items()
    ]
    above = [replace(span, held=_of_module(span.held, span.held.module)) for span in life.spans]
    return replace(life, spans=(*below, *above))


def _of_module(held: Held, module: str) -> Held:
    """Returns a tensor that stands for its module: tensors of one module share a colour."""
    if not (held.dtype or held.scratch or module):
        return held  # the sum of those that are not listed
    place = folded(general(module)) if module else ROLES.get(held.role, OUTSIDE)
    return Held(held.nbytes, held.shape, held.dtype or "scratch", place, "")
