"""Asks FakeGPU's static estimator for the rows of docs/evidence/models.md.

``python benchmarks/fakegpu_rows.py CHECKOUT COMMIT`` with a checkout of github:FanBB2333/FakeGPU,
any build of PyTorch and transformers. The estimator traces a module with fake tensors and adds up
the storages that are alive; it neither computes nor needs a device. Results go to
``benchmarks/results/fakegpu.json``.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from model_rows import BLOCKS, CONFIGS, RESULTS, Attention, Config, sizes_of
from torch import nn
from torch.nn.functional import cross_entropy

_DTYPE = torch.bfloat16


class Program(nn.Module):
    """A model with keywords for its inputs, because the estimator gives inputs by position."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        """Keeps the model and the names of its inputs."""
        super().__init__()
        self.model = model
        self.names = names


class TrainingStep(Program):
    """Returns the loss and the logits, which the caller of a model holds."""

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the loss that ``attnmem model`` takes, and the logits."""
        named = dict(zip(self.names, inputs, strict=True))
        if self.names == ("input_ids",):
            output = self.model(**named, labels=inputs[0], use_cache=False)
            return output.loss, output.logits
        if "decoder_input_ids" in named:
            logits = self.model(**named, use_cache=False).logits
            return cross_entropy(logits.flatten(0, 1), inputs[1].flatten()), logits
        logits = self.model(**named).logits
        return logits.mean(), logits


class Prefill(Program):
    """Returns the logits, and the KV cache of a model that has one, as ``generate()`` does."""

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Returns logits and cache."""
        named = dict(zip(self.names, inputs, strict=True))
        if self.names == ("pixel_values",):
            return self.model(**named).logits
        last = {"logits_to_keep": 1} if self.names == ("input_ids",) else {}
        output = self.model(**named, **last, use_cache=True)
        cache = output.past_key_values
        caches = [getattr(cache, f"{one}_attention_cache", None) for one in ("self", "cross")]
        layers = [layer for one in caches if one for layer in one.layers] or cache.layers
        return output.logits, [(layer.keys, layer.values) for layer in layers]


def estimate(module: nn.Module, inputs: tuple[torch.Tensor, ...], train: bool) -> dict[str, Any]:
    """Returns the estimator's peak in bytes, or the reason why there is none."""
    from fakegpu.memory_estimator import estimate_module_memory  # type: ignore[import-not-found]

    began = time.process_time()
    try:
        report = estimate_module_memory(
            module,
            inputs,
            mode="training" if train else "forward",
            loss_fn=lambda output: output[0].mean(),
            optimizer="adamw",
            target_device="cuda",
        )
    except (RuntimeError, NotImplementedError) as error:
        return {"reason": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    seconds = round(time.process_time() - began, 1)
    return {"peak_bytes": report["estimated_peak_bytes"], "seconds": seconds}


def model_of(path: Path) -> nn.Module:
    """Returns a model of a config on the meta device, in bfloat16."""
    import transformers

    config = json.loads(path.read_text("utf-8"))
    cls = getattr(transformers, config["architectures"][0])
    with torch.device("meta"):
        made: nn.Module = cls._from_config(cls.config_class.from_dict(config), dtype=_DTYPE)
    return made


def inputs_of(name: str) -> dict[str, torch.Tensor]:
    """Returns the inputs of a model on the meta device, by keyword."""
    sizes = sizes_of(name)
    if name.startswith("vit"):
        return {"pixel_values": torch.zeros(sizes["B"], 3, 224, 224, dtype=_DTYPE, device="meta")}
    tokens = torch.zeros(sizes["B"], sizes["N"], dtype=torch.long, device="meta")
    if name.startswith("whisper"):
        heard = torch.zeros(sizes["B"], 80, 3000, dtype=_DTYPE, device="meta")
        return {"input_features": heard, "decoder_input_ids": tokens}
    return {"input_ids": tokens}


def main(checkout: str, commit: str) -> None:
    """Writes the results of every config, and of the block."""
    from transformers import masking_utils

    sys.path.insert(0, checkout)
    warnings.simplefilter("ignore")
    # transformers asks by value whether the tokens are several packed sequences; a trace has none.
    masking_utils.find_packed_sequence_indices = lambda *_: None
    rows = {}
    for path in sorted(CONFIGS.glob("*.json")):
        model, inputs = model_of(path), inputs_of(path.stem)
        names, tensors = tuple(inputs), tuple(inputs.values())
        rows[f"{path.stem}, train"] = estimate(TrainingStep(model.train(), names), tensors, True)
        rows[f"{path.stem}, prefill"] = estimate(Prefill(model.eval(), names), tensors, False)
        print(path.stem, rows[f"{path.stem}, train"], rows[f"{path.stem}, prefill"], flush=True)
    for block, dtype in BLOCKS.items():
        module = Attention(Config()).to(device="meta", dtype=getattr(torch, dtype))
        shape = (*sizes_of(block).values(), Config().n_embd)
        tensor = torch.zeros(shape, dtype=getattr(torch, dtype), device="meta")
        rows[f"{block}, train"] = estimate(module, (tensor,), True)
        print(block, rows[f"{block}, train"], flush=True)
    found = {"commit": commit, "torch": torch.__version__.partition("+")[0], "rows": rows}
    text = json.dumps(found, indent=1, sort_keys=True)
    (RESULTS / "fakegpu.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
