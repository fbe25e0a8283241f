"""Steps of the pretraining of a nanochat, by its own script of one commit, from a checkout.

Its tokenizer and its data are stood for by functions of ours: all tokens are ones, because no byte
depends on them. The first validation and three steps are run. The later validations, the CORE
metric and the samples are left out, which run the model without gradients; that the peak is that of
a step is assumed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from logged import run_until, stand_in
from torch import Tensor

VOCABULARY = 65536
STEPS = 3


class Tokenizer:
    """A tokenizer that gives ones."""

    def get_vocab_size(self) -> int:
        return VOCABULARY

    def get_bos_token_id(self) -> int:
        return 1

    def encode(self, texts: list[str], **_: Any) -> list[list[int]]:
        """Returns a token for each letter."""
        return [[1] * len(text) for text in texts]


def texts(**_: Any) -> Iterator[list[str]]:
    """Yields lists of texts, without an end."""
    while True:
        yield ["a" * 2048] * 64


def token_bytes(device: Any) -> Tensor:
    return torch.ones(VOCABULARY, dtype=torch.int32).to(device)


def pretrain() -> dict[str, int]:
    """Returns the peak after the last step."""
    stand_in("wandb")
    stand_in("mychat.tokenizer", get_tokenizer=Tokenizer, get_token_bytes=token_bytes)
    stand_in("mychat.dataset", parquets_iter_batched=texts)
    stand_in("mychat.checkpoint_manager", save_checkpoint=None)
    stand_in("mychat.engine", Engine=None)
    stand_in("scripts.base_eval", evaluate_model=None)
    script = Path("scripts", "base_train.py")
    checkout = next(folder for folder in sys.path if Path(folder, script).is_file())
    os.chdir(checkout)  # it reads a file of its own by a path from there
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"HOME": home, "TORCHINDUCTOR_CACHE_DIR": home}
        sys.argv = [str(script), f"--num_iterations={STEPS}"]
        run_until(str(script), lambda text: f"step {STEPS - 1:05d}/" in text)
    return {"peak": torch.cuda.max_memory_allocated()}
