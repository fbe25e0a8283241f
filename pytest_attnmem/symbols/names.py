"""The symbols of an attention, and the usual argument names for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: Batch, query heads, key/value heads, query length, key/value length, width of a head of q and k,
#: width of a head of v, bytes of an element.
SYMBOLS = ("B", "H", "Hkv", "N", "M", "d", "dv", "itemsize")

#: The number of ranks.
WORLD = "W"

#: Symbol → the symbol that it is equal to by default.
DEFAULTS: Mapping[str, str] = MappingProxyType({"Hkv": "H", "M": "N", "dv": "d"})

#: Usual name of an argument → its symbol.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "batch": "B",
        "batch_size": "B",
        "bsz": "B",
        "heads": "H",
        "num_heads": "H",
        "n_heads": "H",
        "nheads": "H",
        "q_heads": "H",
        "num_q_heads": "H",
        "num_attention_heads": "H",
        "kv_heads": "Hkv",
        "num_kv_heads": "Hkv",
        "n_kv_heads": "Hkv",
        "num_key_value_heads": "Hkv",
        "seq_len": "N",
        "seqlen": "N",
        "seq_length": "N",
        "sequence_length": "N",
        "q_len": "N",
        "query_len": "N",
        "kv_len": "M",
        "k_len": "M",
        "key_len": "M",
        "head_dim": "d",
        "dim_head": "d",
        "v_head_dim": "dv",
        "value_dim": "dv",
    }
)
