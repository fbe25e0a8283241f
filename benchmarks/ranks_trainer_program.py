"""A small Llama in transformers' Trainer under FSDP, the version of which is the first argument.

The script is one that torchrun starts as it stands: its settings are the Trainer's own.
"""

import sys

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(Dataset):
    """Random tokens, the same in each run."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        tokens = torch.randint(0, 1000, (128,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


config = LlamaConfig(
    vocab_size=1000,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=256,
)
arguments = TrainingArguments(
    output_dir="out",
    max_steps=2,
    per_device_train_batch_size=2,
    bf16=True,
    save_strategy="no",
    logging_steps=1,
    report_to=[],
    fsdp="full_shard auto_wrap",
    fsdp_config={
        "fsdp_version": int(sys.argv[1]),
        "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"],
    },
)
Trainer(model=LlamaForCausalLM(config), args=arguments, train_dataset=Tokens()).train()
