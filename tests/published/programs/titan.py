"""Steps of a training with torchtitan, by its own code of one commit, from a checkout.

Its tokenizer and its data are stood for by classes of ours: all tokens are ones, because no byte
depends on them. The configuration is torchtitan's own file, without a profile and Tensorboard and
with a seed, since PyTorch up to 2.8 cannot read a seed of 64 bits under a ``TorchDispatchMode``.
Reserved memory is the same from the third step on; six run.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from logged import stand_in
from torch import Tensor

#: The tokens of Llama 3's tokenizer.
VOCABULARY = 128256
STEPS = 6


class StatefulLoader:
    """What a loader of torchtitan is derived from, and none is made of."""


class Loader:
    """A loader of batches, each of tokens and labels."""

    def __init__(self, batch: int, length: int, named: bool) -> None:
        self.shape, self.named = (batch, length), named

    def __iter__(self) -> Iterator[tuple[Any, Tensor]]:
        while True:
            tokens = torch.ones(self.shape, dtype=torch.int64)
            yield ({"input": tokens} if self.named else tokens), tokens.clone()

    def state_dict(self) -> dict[str, Any]:
        """Returns nothing: no checkpoint is written."""
        return {}


def loader_of_config(job_config: Any, **_: Any) -> Loader:
    training = job_config.training
    batch = getattr(training, "local_batch_size", 0) or training.batch_size  # its older name
    return Loader(batch, training.seq_len, named=True)


def loader_of_sizes(
    name: str, path: str, tokenizer: Any, batch: int, length: int, *ranks: int
) -> Loader:
    """Returns the loader of torchtitan before 2025."""
    return Loader(batch, length, named=False)


def tokenizer(*_: Any) -> SimpleNamespace:
    """Returns what torchtitan reads of a tokenizer."""
    return SimpleNamespace(n_words=VOCABULARY, eos_id=0)


def llama(more: str = "", *, config: str, options: str) -> dict[str, int]:
    """Returns what is reserved after some steps; ``config`` is a file of the checkout."""
    stand_in("torch.utils.tensorboard", SummaryWriter=None)
    path = next(file for folder in sys.path if (file := Path(folder, config)).is_file())
    text = path.read_text("utf-8")
    for setting in ("enable_profiling", "enable_tensorboard"):
        text = text.replace(f"{setting} = true", f"{setting} = false")
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "config.toml")
        given.write_text(text, "utf-8")
        usual = f"--training.steps={STEPS} --training.seed=1 --metrics.log_freq=1"
        arguments = [f"--job.config_file={given}", *usual.split(), *options.split(), *more.split()]
        train = of_2024 if config.startswith("train_configs") else of_2025
        train(arguments)
    return {"reserved": torch.cuda.memory_stats()["reserved_bytes.all.peak"]}


def of_2024(arguments: list[str]) -> None:
    """Trains with torchtitan of 2024, whose script is beside its package."""
    stand_in("torchtitan.datasets", build_hf_data_loader=loader_of_sizes, build_tokenizer=tokenizer)
    settings = importlib.import_module("torchtitan.config_manager").JobConfig()
    settings.parse_args(arguments)
    importlib.import_module("train").main(settings)


def of_2025(arguments: list[str]) -> None:
    """Trains with torchtitan of 2025."""
    stand_in("torchdata")
    stand_in("torchdata.stateful_dataloader", StatefulDataLoader=StatefulLoader)
    stand_in("torchtitan.datasets.hf_datasets", build_hf_dataloader=loader_of_config)
    stand_in("torchtitan.datasets.tokenizer.tiktoken", build_tiktoken_tokenizer=tokenizer)
    manager = importlib.import_module("torchtitan.config_manager").ConfigManager()
    trainer = importlib.import_module("torchtitan.train").Trainer
    trainer(manager.parse_args(arguments)).train()
