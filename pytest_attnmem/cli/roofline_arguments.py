"""The model and the device of the command ``roofline``, from its arguments."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from types import MappingProxyType
from typing import Final

from ..errors import BudgetError
from ..inference.analysis import Analysis
from ..inference.numbers import Given, positive, whole
from ..inference.roof import DTYPES, Roofline, dtype_named, roof
from ..inference.transformer import Model, model_of
from ..profiles import DEFAULT_PROFILE, find_profile
from ..units import parse_size, shown

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
