"""Generation with each kind of KV cache of transformers, by small models with random weights."""

from types import MappingProxyType

import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

#: The sizes of the models: layers, heads of keys and values, and their dimension.
SIZES = MappingProxyType({"layers": 2, "Hkv": 4, "d": 16})
#: The tokens that sliding attention sees.
WINDOW = 32

#: The options of ``generate`` by kind of cache. On CUDA, a static cache compiles its steps if it
#: may. Groups of 32 numbers have a scale and a zero; up to 16 recent tokens are not quantised.
CACHES = MappingProxyType(
    {
        "dynamic": {},
        "static": {"cache_implementation": "static", "disable_compile": True},
        "sliding": {},
        "quantized fp8": {
            "cache_implementation": "quantized",
            "cache_config": {"backend": "fp8"},
        },
        "quantized hqq": {
            "cache_implementation": "quantized",
            "cache_config": {
                "backend": "hqq",
                **{"nbits": 4, "q_group_size": 32, "axis_key": 1, "axis_value": 1},
                "residual_length": 16,
            },
        },
    }
)

#: The bytes of the cache after T new tokens, the last of which was not read; T >= 2.
FORMULAS = MappingProxyType(
    {
        "dynamic": "2*layers*B*Hkv*d*(N + T - 1)*itemsize",
        # The counter of each layer is a tensor.
        "static": "2*layers*B*Hkv*d*(N + T - 1)*itemsize + 8*layers",
        "sliding": f"2*layers*B*Hkv*d*min(N + T - 1, {WINDOW})*itemsize + 8*layers",
        # A scale for the keys and one for the values of each layer.
        "quantized fp8": "2*layers*B*Hkv*d*(N + T - 1) + 8*layers",
        # Here T <= 16: the new tokens are not quantised yet.
        "quantized hqq": "2*layers*B*Hkv*d*(N/2 + N*2*itemsize/32 + (T - 1)*itemsize)",
    }
)


def model_of(kind, device):
    """Returns a model with random weights, whose attention has a window if the cache slides."""
    sizes = {
        **{"vocab_size": 101, "hidden_size": 64, "intermediate_size": 128},
        **{"num_hidden_layers": SIZES["layers"], "head_dim": SIZES["d"]},
        **{"num_attention_heads": 4, "num_key_value_heads": SIZES["Hkv"]},
        "max_position_embeddings": 8192,
    }
    with torch.device(device):
        if kind == "sliding":
            model = MistralForCausalLM(MistralConfig(**sizes, sliding_window=WINDOW))
        else:
            model = LlamaForCausalLM(LlamaConfig(**sizes))
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = None  # so that T tokens are made
    return model.eval()


def generate(model, kind, B, N, T):
    """Generates T tokens after prompts of N, and returns the cache alone."""
    tokens = torch.ones(B, N, dtype=torch.long, device=model.device)
    made = model.generate(
        tokens,
        attention_mask=torch.ones_like(tokens),
        **{"max_new_tokens": T, "do_sample": False, "return_dict_in_generate": True},
        **CACHES[kind],
    )
    return made.past_key_values
