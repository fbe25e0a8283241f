"""Show the limit of a model's inference on a device: memory, bandwidth or arithmetic."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ..errors import BudgetError
from ..inference.analysis import ATTENTION, Analysis, StepCost
from ..inference.numbers import Given, positive, whole
from ..inference.roof import DTYPES, Roofline, dtype_named, roof
from ..inference.transformer import Model, model_of
from ..profiles import DEFAULT_PROFILE, find_profile
from ..report.cells import aligned
from ..units import common_unit, format_in, format_size, format_with_bytes, parse_size, shown
from .terminal import answer, progress

#: Dtypes of stored weights; products are computed in another dtype by default.
_QUANTISED: Final = ("fp8", "int8", "fp4", "int4")

#: The option that gives each number of a model.
_OPTIONS: Final = MappingProxyType(
    {
        "num_params": "--params",
        "num_layers": "--layers",
        "d_model": "--d-model",
        "num_heads": "--heads",
        "num_kv_heads": "--kv-heads",
        "head_dim": "--head-dim",
        "latent_dim": "--mla",
        "rope_dim": "--mla",
        "kv_group_size": "--kv-group",
        "kv_group_bytes": "--kv-group-bytes",
    }
)


def add_arguments(parser: ArgumentParser) -> None:
    """``--params 7e9 --layers 32 --d-model 4096 --heads 32 --dtype fp16 --device A100-80GB``."""
    parser.epilog = (
        "The times are lower bounds, at the speeds that vendors state: weights and cache are read"
        " once, inputs and outputs of an operation are moved once, and a fused attention keeps its"
        " scores on the chip. Decode adds one token to each sequence; prefill computes all tokens"
        " at once, each attending to all. For a mixture of experts, --params with all experts"
        " gives the memory, and with the experts of one token the tokens per second. Activations"
        " and workspaces count only as moved bytes. The sequence length is the number of tokens in"
        " the cache."
    )
    add, names = parser.add_argument, ", ".join(DTYPES)
    add("--params", required=True, metavar="NUMBER", help="number of parameters, such as 7e9")
    add("--layers", required=True, metavar="SIZE", help="number of layers")
    add("--d-model", required=True, metavar="SIZE", help="width of the model")
    add("--heads", required=True, metavar="SIZE", help="number of query heads")
    add("--kv-heads", metavar="SIZE", help="number of key/value heads (default: --heads)")
    add("--head-dim", metavar="SIZE", help="width of a head (default: --d-model / --heads)")
    add(
        "--mla", metavar="LATENT+ROPE", help="sizes of a latent cache for all heads, such as 512+64"
    )
    add("--dtype", default="fp16", help=f"dtype of the weights: {names} (default: fp16)")
    add(
        "--compute-dtype",
        metavar="DTYPE",
        help="dtype of products (default: --dtype, or fp16 if quantised)",
    )
    add("--kv-dtype", metavar="DTYPE", help="dtype of the cache (default: --compute-dtype)")
    add(
        "--kv-group",
        metavar="SIZE",
        help="number of elements of a quantised cache that share a scale",
    )
    add(
        "--kv-group-bytes",
        metavar="NUMBER",
        help="bytes of their scale and zero point (default: 2)",
    )
    add("--batch", default="1", metavar="SIZE", help="number of sequences (default: 1)")
    add("--seq-len", default="2048", metavar="SIZE", help="tokens in each sequence (default: 2048)")
    add("--device", metavar="PROFILE", help=f"such as H100 (default: {DEFAULT_PROFILE})")
    add(
        "--bandwidth",
        metavar="NUMBER",
        help="bytes per second, such as 2e12 (default: the device's)",
    )
    add(
        "--compute",
        metavar="NUMBER",
        help="FLOPs per second, such as 312e12 (default: the device's)",
    )
    add("--memory", metavar="SIZE", help="such as '80 GiB' (default: the device's)")
    add("--json", action="store_true", help="print the result as JSON")
    add("--plot", type=Path, metavar="PATH", help="draw the roofline as .png or .svg")


def analysis(arguments: Namespace) -> tuple[Analysis, dict[str, str]]:
    """Returns the analysis, and the dtypes of weights, products and cache.

    Raises:
        AttnMemError: a dtype or device is unknown, or the sizes do not fit together.
    """
    dtype = dtype_named(arguments.dtype, "--dtype")
    computed, cached = arguments.compute_dtype, arguments.kv_dtype
    if computed is None:
        computed = "fp16" if dtype in _QUANTISED else dtype
    computed = dtype_named(computed, "--compute-dtype")
    cached = computed if cached is None else dtype_named(cached, "--kv-dtype")
    dtypes = {"dtype": dtype, "compute_dtype": computed, "kv_dtype": cached}
    model, device = _model(arguments, dtypes), _roof(arguments, computed)
    batch = whole("--batch", _number(arguments.batch))
    return Analysis(model, device, batch, whole("--seq-len", _number(arguments.seq_len))), dtypes


def _model(arguments: Namespace, dtypes: dict[str, str]) -> Model:
    texts = {
        name: getattr(arguments, option[2:].replace("-", "_"))
        for name, option in _OPTIONS.items()
        if option != "--mla"
    }
    texts |= _latent(arguments.mla)
    given: dict[str, object] = {
        name: _number(text) for name, text in texts.items() if text is not None
    }
    given["dtype_bytes"] = DTYPES[dtypes["dtype"]]
    given["activation_bytes"] = DTYPES[dtypes["compute_dtype"]]
    given["kv_dtype_bytes"] = DTYPES[dtypes["kv_dtype"]]
    return model_of(Given(given, _OPTIONS))


def _latent(text: str | None) -> dict[str, str | None]:
    if text is None:
        return {}
    latent, plus, rope = text.partition("+")
    if not latent or (plus and not rope):
        raise BudgetError(f"--mla: expected such as 512+64, or 512, got {shown(text)}")
    return {"latent_dim": latent, "rope_dim": rope or None}


def _number(text: str) -> object:
    """Returns the number that the text writes, or the text, which a later check refuses."""
    try:
        return int(text) if text.isdecimal() and len(text) < 40 else float(text)
    except ValueError:
        return text


def _roof(arguments: Namespace, computed: str) -> Roofline:
    """Returns the device's roofline: its profile, with the given rates and memory."""
    bandwidth, compute, memory = arguments.bandwidth, arguments.compute, arguments.memory
    if arguments.device is None and {bandwidth, compute, memory} != {None}:
        if bandwidth is None or compute is None:
            raise BudgetError(
                "a device needs --bandwidth and --compute, and --memory if it matters; give both,"
                " or the --device whose rates they replace"
            )
        known = Roofline("the device", None, 1.0, 1.0)
    else:
        known = roof(find_profile(arguments.device or DEFAULT_PROFILE), computed)
    return Roofline(
        known.name,
        known.memory_bytes if memory is None else parse_size(memory),
        known.bandwidth_bytes_per_sec if bandwidth is None else _rate("--bandwidth", bandwidth),
        known.compute_flops if compute is None else _rate("--compute", compute),
        known.dtype if compute is None else computed,
    )


def _rate(name: str, text: str) -> float:
    return positive(name, _number(text))


def execute(arguments: Namespace) -> int:
    """Prints the analysis, and draws it if requested.

    Raises:
        AttnMemError: a dtype or device is unknown, the sizes do not fit together, or the figure
            cannot be drawn.
    """
    found, dtypes = analysis(arguments)
    if arguments.plot:
        from ..plot import save
        from ..plot.roofline_figure import draw

        with progress(f"drawing {arguments.plot}"):
            save(draw(found), arguments.plot)
    answer(arguments.json, lambda: to_dict(found, dtypes), lambda: render(found, dtypes))
    return 0


def render(found: Analysis, dtypes: dict[str, str]) -> list[str]:
    """Returns a table of operations, and the notes under it."""
    rows = [row for step in (found.decode, found.prefill) for row in _rows(found, step)]
    headers = ["", "operation", "GFLOP", "moved", "FLOP/B", "bound by", "ms at least"]
    table = aligned(rows, headers, "llrrrlr")
    return [*_notes(found), "", *_head(found, dtypes), "", *table]


def _head(found: Analysis, dtypes: dict[str, str]) -> Iterator[str]:
    model, device = found.model, found.roof
    heads = f"{model.num_heads} heads of {model.head_dim}"
    if model.latent_dim:
        heads += f" over a latent of {model.latent_dim}+{model.rope_dim}"
    elif model.num_kv_heads != model.num_heads:
        heads += f" over {model.num_kv_heads}"
    yield (
        f"{model.num_params:,} parameters in {dtypes['dtype']}, {model.num_layers} layers of"
        f" {model.d_model}, {heads}; batch {found.batch_size:,} of {found.seq_len:,} tokens,"
        f" cached in {dtypes['kv_dtype']}"
    )
    yield (
        f"{device.name}: {_rounded(device.bandwidth_bytes_per_sec / 10**9)} GB/s,"
        f" {_rounded(device.compute_flops / 10**12)} TFLOP/s in {device.dtype}, ridge point"
        f" {_rounded(device.ridge)} FLOP/B"
    )


def _rows(found: Analysis, step: StepCost) -> Iterator[list[str]]:
    unit = common_unit([one.nbytes for one in step.operations])
    for place, one in enumerate((*step.operations, step.whole)):
        last = place == len(step.operations)
        seconds = found.seconds(step) if last else found.roof.seconds(one.flops, one.nbytes)
        yield [
            "" if place else step.name,
            one.name,
            _rounded(one.flops / 10**9),
            f"{format_in(one.nbytes, unit)} {unit}",
            _rounded(one.intensity),
            "memory" if found.roof.is_memory_bound(one.intensity) else "compute",
            f"{seconds * 1000:,.3f}",
        ]


def _rounded(number: float) -> str:
    """Returns the number with one decimal, or with three digits if it is less than 1."""
    return f"{number:,.1f}" if number >= 0.9995 else f"{number:.3g}"


def _notes(found: Analysis) -> Iterator[str]:
    model, device = found.model, found.roof
    held, cache = map(format_with_bytes, (model.memory_bytes, found.kv_cache_bytes))
    yield (
        f"memory: weights {held} and cache {cache} need {format_size(found.needed_bytes)}"
        + ("" if device.memory_bytes is None else f" of {format_size(device.memory_bytes)}")
    )
    if found.fits is not None:
        tokens, sequences = found.longest_seq_len, found.largest_batch_size
        yield (
            f"{'fits' if found.fits else 'does not fit'} {device.name}: at batch"
            f" {found.batch_size:,} {f'up to {tokens:,} tokens' if tokens else 'not one token'}, at"
            f" {found.seq_len:,} tokens {f'up to batch {sequences:,}' if sequences else 'no batch'}"
        )
    yield (
        "tokens/s at most:"
        f" {_rounded(found.weights_tokens_per_sec)} of one sequence by the weights alone;"
        f" {_rounded(found.memory_tokens_per_sec)} of the batch with its cache read;"
        f" {_rounded(found.tokens_per_sec)} by operation"
    )
    decode = found.decode
    yield f"decode can use {_rounded(100 * found.utilization(decode))}% of the peak FLOP/s"
    weights = [one for one in decode.operations if one.name != ATTENTION]
    yield f"products with weights: {_until(found.compute_bound_batch(weights))}"
    batch, room = found.compute_bound_batch(decode.operations), found.largest_batch_size
    too_large = batch is not None and room is not None and batch > room
    over = f", which does not fit {device.name}" if too_large else ""
    yield f"the whole step at {found.seq_len:,} tokens: {_until(batch)}{over}"


def _until(batch: int | None) -> str:
    if batch is None:
        return "memory-bound at any batch, for what is read grows with it"
    if batch == 1:
        return "compute-bound at any batch"
    return f"memory-bound up to batch {batch - 1:,}, compute-bound from {batch:,}"


def to_dict(found: Analysis, dtypes: dict[str, str]) -> dict[str, Any]:
    """Returns the result as JSON values, in bytes, FLOPs and seconds."""
    model, device = found.model, found.roof
    weights = [one for one in found.decode.operations if one.name != ATTENTION]
    return {
        "params": model.num_params,
        **dtypes,
        "batch_size": found.batch_size,
        "seq_len": found.seq_len,
        "device": device.name,
        "memory_bytes": device.memory_bytes,
        "bandwidth_bytes_per_sec": device.bandwidth_bytes_per_sec,
        "compute_flops": device.compute_flops,
        "computed_in": device.dtype,
        "ridge_point": device.ridge,
        "model_bytes": model.memory_bytes,
        "kv_cache_bytes": found.kv_cache_bytes,
        "fits": found.fits,
        "longest_seq_len": found.longest_seq_len,
        "largest_batch_size": found.largest_batch_size,
        "max_tokens_per_sec": found.weights_tokens_per_sec,
        "memory_tokens_per_sec": found.memory_tokens_per_sec,
        "tokens_per_sec": found.tokens_per_sec,
        "compute_bound_batch_size": {
            "weights": found.compute_bound_batch(weights),
            "step": found.compute_bound_batch(found.decode.operations),
        },
        "steps": [_step(found, step) for step in (found.decode, found.prefill)],
    }


def _step(found: Analysis, step: StepCost) -> dict[str, Any]:
    return {
        "name": step.name,
        "tokens": step.tokens,
        "seconds": found.seconds(step),
        "utilization": found.utilization(step),
        "operations": [
            {
                "name": one.name,
                "flops": one.flops,
                "bytes": one.nbytes,
                "intensity": one.intensity,
                "memory_bound": found.roof.is_memory_bound(one.intensity),
            }
            for one in (*step.operations, step.whole)
        ],
    }
