"""The memory of a whole model: its parts sum to the peak, and each has its term and module."""

import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import nn

from pytest_attnmem import BudgetError, BudgetExceeded, measure, model
from pytest_attnmem.api.attnmem import AttnMem
from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.models.breakdown import TERMS, table_of
from pytest_attnmem.models.model_memory import ModelRun, recipe_of

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "models"))
gpt = import_module("gpt")

SMALL = {"vocab_size": 101, "n_layer": 2, "n_head": 2, "n_embd": 64, "positions": 128}
build = partial(gpt.build, **SMALL)
WEIGHTS = 4 * sum(parameter.numel() for parameter in build().parameters())


def backward(net, tokens):
    """In a function, so that no logits of the last step are alive."""
    logits = net(tokens)
    loss = nn.functional.cross_entropy(logits.view(-1, 101), tokens.view(-1))
    loss.backward()


def plain_training():
    """The step that ``train="adamw"`` stands for."""
    with torch.device("cuda"):
        net = build()
        tokens = torch.zeros(16, 128, dtype=torch.long)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(2):
        backward(net, tokens)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(
    "options",
    [
        {"train": "adamw"},
        {"train": "sgd", "checkpoint": True, "accumulate": 2},
        {"train": "adamw", "dtype": "bfloat16", "sdpa": "math"},
        # The recomputation in the backward pass has the chosen attention too.
        {"train": "adamw", "dtype": "bfloat16", "sdpa": "math", "checkpoint": True},
        {"train": "adamw", "autocast": "bfloat16"},
        {},
    ],
)
def test_parts_sum_to_the_peak(options):
    found = model(build, B=2, N=32, **options)
    assert sum(part.held.nbytes for part in found.parts) == found.peak_bytes
    assert sum(row.total() for row in table_of(found.parts).values()) == found.peak_bytes
    assert sum(found.terms.values()) == found.peak_bytes
    assert {*found.terms} <= {*TERMS}
    itemsize = 2 if options.get("dtype") else 4
    assert found.terms["weights"] == WEIGHTS // 4 * itemsize


def test_the_step_is_the_plain_one():
    found = model(build, B=16, N=128, train="adamw")
    assert found.peak_bytes == measure(plain_training, backend="simulated").peak_bytes
    assert found.parameters == WEIGHTS // 4
    # PyTorch's AdamW keeps ``step`` on the CPU.
    assert found.terms["optimizer state"] == 2 * WEIGHTS
    # The MLP of each layer keeps [16, 128, 256] twice: before GELU and after it.
    one, all_ = (found.part(f"blocks.{which}.mlp", "saved for backward") for which in "0*")
    assert (one.peak_bytes, all_.peak_bytes) == (2 * 16 * 128 * 256 * 4, 4 * 16 * 128 * 256 * 4)


def test_checkpointed_layers_keep_their_inputs_alone():
    found = model(build, B=16, N=128, train="adamw", checkpoint=True)
    saved = [part for part in found.parts if part.term == "saved for backward"]
    assert "blocks.0.mlp" not in {part.module for part in saved}
    assert found.peak_bytes < model(build, B=16, N=128, train="adamw").peak_bytes


def wasteful():
    torch.zeros(1 << 24)
    return build()


def test_the_making_of_a_model_is_not_in_its_peak():
    found, plain = model(wasteful, B=2, N=32), model(build, B=2, N=32)
    assert found.peak_bytes == plain.peak_bytes < 1 << 24
    assert found.measurement.allocated_bytes >= 1 << 26


def test_an_instance_is_measured_and_left_as_it_was():
    net = build()
    before = {name: tensor.data_ptr() for name, tensor in net.state_dict().items()}
    assert model(net, B=2, N=32).peak_bytes == model(build, B=2, N=32).peak_bytes
    assert {name: tensor.data_ptr() for name, tensor in net.state_dict().items()} == before


class Cached(nn.Module):
    """A model that keeps its embeddings as a KV cache."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)

    def forward(self, input_ids, past_key_values=None):
        made = self.embed(input_ids)
        cache = past_key_values or {"keys": made[:, :0]}
        cache["keys"] = torch.cat([cache["keys"], made], 1)

        class Output:
            past_key_values = None
            logits = None

        output = Output()
        output.past_key_values, output.logits = cache, made
        return output


def test_decoding_grows_the_cache():
    found = model(Cached, inputs=["input_ids=long[B,N]<10"], B=3, N=16, new_tokens=4)
    # The cache of 19 tokens is copied to one of 20: both are alive.
    assert found.terms["KV cache"] == 3 * (19 + 20) * 8 * 4
    assert sum(found.terms.values()) == found.peak_bytes


def test_what_does_not_fit_says_so_and_is_listed_in_full():
    wide = partial(gpt.build, **{**SMALL, "positions": 1 << 24})
    found = model(wide, backend="simulated:T4", B=64, N=1 << 20, train="adamw")
    assert not found.fits
    assert found.measurement.out_of_memory.startswith("needs ")
    assert sum(found.terms.values()) == found.peak_bytes > 16 << 30


def test_the_largest_fits_and_one_more_does_not():
    run = ModelRun(build, recipe_of([], {"B": 4096, "N": 256}), open_primed("simulated:T4"))
    shown = []
    found = run.largest("N", 1 << 27, shown.append)
    sizes = {int(text.partition("=")[2].replace(",", "")) for text in shown if text}
    assert {found.size, found.size + 1} <= sizes  # both ran
    for size, fits in ((found.size, True), (found.size + 1, False)):
        recipe = recipe_of([], {"B": 4096, "N": size})
        assert ModelRun(build, recipe, run.primed).memory().fits is fits
    assert shown[0] == "trying N=256"
    assert all(text.startswith("trying N=") for text in shown)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"train": "adamv"}, "unknown optimizer 'adamv'; expected one of adamw, adam, sgd,"),
        ({"trian": "adamw"}, "model has no option trian='adamw'; it takes train, dtype,"),
        ({"sdpa": "flsh"}, "unknown backend of SDPA 'flsh'; expected one of flash, efficient,"),
        ({"accumulate": 0}, "accumulate=0; write a whole number >= 1"),
        ({"new_tokens": -1}, "new_tokens=-1; write a whole number >= 0"),
        ({"new_tokens": 1, "train": "sgd"}, "a training step makes no tokens; leave out train or"),
        ({"checkpoint": True}, "checkpoint and accumulate need a backward pass; add train='adamw'"),
        (
            {"new_tokens": 1},
            "GPT returns no past_key_values, so that it cannot make tokens one"
            " by one; leave out new_tokens, on the command line --decode",
        ),
        ({"inputs": ["input_ids=long[B;N]"]}, "input 'input_ids=long[B;N]': "),
        ({"inputs": ["input_ids long"]}, "cannot read input 'input_ids long'; write input_ids="),
        ({"inputs": ["input_ids=long[B,S]<vocab"]}, "input input_ids=long[B,S]<vocab: "),
        ({"source": lambda: 3}, "the source made an int; expected an nn.Module"),
        ({"source": lambda: nn.Linear(2, 2)}, "the inputs of Linear are not known; write each"),
        (
            {"source": lambda: nn.Linear(2, 2), "train": "sgd", "checkpoint": True},
            "'Linear' has no nn.ModuleList of layers to checkpoint; call torch.utils.checkpoint",
        ),
    ],
)
def test_errors(options, text):
    options = {"source": build, "B": 2, "N": 32, **options}
    with pytest.raises(BudgetError) as caught:
        model(options.pop("source"), **options)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def test_a_part_that_is_not_there_is_an_error():
    found = model(build, B=2, N=32)
    with pytest.raises(BudgetError, match="unknown term 'weight'; expected one of weights, "):
        found.part("*", "weight")
    with pytest.raises(BudgetError, match="no module 'layers' holds memory at the peak; "):
        found.part("layers")


def test_a_part_is_held_to_a_formula_of_the_config():
    found = model(build, B=16, N=128, train="adamw")
    memory = AttnMem()
    saved = found.part("blocks.*.mlp", "saved for backward")
    memory.check(saved, "8*layers*B*N*hidden*itemsize", exact=True)
    with pytest.raises(BudgetExceeded) as caught:
        memory.check(saved, "7*layers*B*N*hidden*itemsize")
    lines = str(caught.value).splitlines()
    assert "peak 8.0 MiB exceeds budget 7.0 MiB (1.1x) on simulated" in lines[0]
    assert "layers=2" in lines[1]
    assert any("2 × 2.0 MiB" in line and "blocks.*.mlp.up" in line for line in lines)


def test_the_fixture_measures_on_its_backend():
    memory = AttnMem(backend="simulated:H100")
    assert memory.model(build, B=2, N=32).measurement.backend == "simulated:H100"
    with pytest.raises(BudgetError, match="measured on null, simulated or cuda, not on cpu; back"):
        AttnMem(backend="cpu").model(build, B=2, N=32)
