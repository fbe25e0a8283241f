"""The sizes in the config of a model, under the names that formulas use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

#: The names that configs of public models give to a size, by symbol; the first found counts.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "layers", "depth"),
        "hidden": ("hidden_size", "n_embd", "d_model", "dim", "hidden"),
        "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "heads"),
        "kv_heads": ("num_key_value_heads", "n_kv_heads", "kv_heads"),
        "vocab": ("vocab_size", "vocab"),
        "experts": ("num_local_experts", "num_experts", "n_routed_experts", "experts"),
    }
)


def config_sizes(model: Any) -> dict[str, int]:
    """Returns layers, hidden, heads, kv_heads, vocab and experts from ``model.config``.

    A size that the config does not have is left out; ``kv_heads`` is then ``heads``.
    """
    config = getattr(model, "config", None)
    entries: Mapping[str, Any] = config if isinstance(config, Mapping) else {}
    found: dict[str, int] = {}
    for symbol, names in _NAMES.items():
        read = (entries.get(name, getattr(config, name, None)) for name in names)
        values = [value for value in read if isinstance(value, int)]
        if values and not isinstance(values[0], bool):
            found[symbol] = values[0]
    if "heads" in found:
        found.setdefault("kv_heads", found["heads"])
    return found
