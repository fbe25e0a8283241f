"""Advice: each suggestion has run within the budget, and its operations are counted."""

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pytest_attnmem import BudgetError, model
from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.cli import main
from pytest_attnmem.models.advice import advise
from pytest_attnmem.models.advice_text import render, to_dict
from pytest_attnmem.models.chunked_loss import chunked_loss
from pytest_attnmem.models.flops import FlopCount
from pytest_attnmem.models.model_memory import ModelRun, recipe_of

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "models"))
gpt = import_module("gpt")

SMALL = {"vocab_size": 1009, "n_layer": 2, "n_head": 2, "n_embd": 64, "positions": 128}
build = partial(gpt.build, **SMALL)
STEP = {"B": 4, "N": 128, "train": "adamw"}


def advice(budget, source=build, **options):
    run = ModelRun(source, recipe_of([], {**STEP, **options}), open_primed("simulated:A100-80GB"))
    return advise(run, run.memory(), budget)


def alone(found, option):
    (trial,) = (one for one in found.alone if one.edits[0].option == option)
    return trial


def test_what_is_suggested_passes_when_it_runs_again():
    found = advice(4 << 20)
    assert found.suggested
    for trial in found.suggested:
        recipe = trial.recipe
        again = model(
            build,
            backend="simulated:A100-80GB",
            **{"train": "adamw", "dtype": recipe.dtype, "autocast": recipe.autocast},
            **{"checkpoint": recipe.checkpoint, "loss_chunks": recipe.loss_chunks},
            **{"implementation": recipe.implementation, "accumulate": recipe.accumulate},
            **recipe.sizes,
        )
        assert trial.peak_bytes == again.peak_bytes <= 4 << 20
        # No edit of a suggestion can be left out: those by themselves did not pass.
        assert len(trial.edits) == 1 or not any(one.passes(4 << 20) for one in found.alone)
    text = "\n".join(render(found, "simulated"))
    assert text.startswith(f"advice: {found.runs} other recipes ran on simulated, for 4.0 MiB")
    assert to_dict(found)["suggested"][0]["passes"] is True


def test_nothing_that_did_not_pass_is_suggested():
    found = advice(1 << 10)
    assert found.suggested == ()
    assert found.nearest.peak_bytes == min(
        trial.peak_bytes for trial in (*found.alone, found.nearest)
    )
    lines = [*render(found, "simulated")]
    assert lines[1] == "  nothing that was tried passes"
    assert lines[2].startswith("  the nearest: peak ")


def test_a_recipe_within_its_budget_needs_no_run():
    found = advice(1 << 30)
    assert (found.runs, found.suggested, found.alone) == (0, (), ())
    assert [*render(found, "x")] == ["advice: none is needed, the recipe is within 1.0 GiB"]


def test_the_free_edits_are_those_that_the_recipe_leaves():
    found = advice(1 << 10, keep_gradients=True, sdpa="math", dtype="bfloat16")
    options = {trial.edits[0].option for trial in found.alone}
    assert {"no --keep-gradients", "--sdpa ''", "--implementation fused"} <= options
    assert not {"--dtype bf16", "--autocast bf16"} & options
    assert alone(found, "--sdpa ''").peak_bytes < found.peak_bytes


class Fragile(nn.Module):
    """A model that works in float32 only, without layers or a vocabulary."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 64)

    def forward(self, input_ids):
        if self.table.weight.dtype != torch.float32:
            raise TypeError("float32 only")
        return self.table(input_ids) @ torch.ones(64, 4096, device=input_ids.device)


def test_an_edit_that_does_not_run_is_named():
    found = advice(1 << 10, Fragile)
    assert alone(found, "--checkpoint").reason.startswith(
        "did not run: 'Fragile' has no nn.ModuleList of layers to checkpoint;"
    )
    assert alone(found, "--dtype bf16").reason.startswith(
        "did not run: the model raised TypeError: float32 only at test_advice.py:"
    )
    assert alone(found, "--loss-chunks 8").reason == (
        "did not run: Fragile has no nn.Linear with as many outputs as the vocabulary; leave out"
        " --loss-chunks"
    )


def test_the_operations_of_recomputation_are_counted():
    count = FlopCount()
    run = ModelRun(build, recipe_of([], {**STEP, "checkpoint": True}), open_primed("simulated"))
    run.count(count)
    T, C, N = 4 * 128, 64, 128
    # QKV, both products of attention, its output and the MLP's first layer: backward of the last
    # layer needs no output of it.
    layer = 2 * T * C * 3 * C + 2 * 2 * T * N * C + 2 * T * C * C + 2 * T * C * 4 * C
    assert count.flops.recomputed == 2 * layer
    chunked = FlopCount()
    run.of(recipe_of([], {**STEP, "loss_chunks": 4})).count(chunked)
    assert chunked.flops.recomputed == 2 * T * C * 1009


class OfTransformers(gpt.GPT):
    """A model whose own loss is ForCausalLMLoss."""

    loss_type = "ForCausalLM"

    def forward(self, input_ids, labels=None):
        logits = super().forward(input_ids)
        if labels is None:
            return SimpleNamespace(logits=logits)
        wanted = nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]
        loss = nn.functional.cross_entropy(
            logits.float().view(-1, 1009), wanted.reshape(-1), ignore_index=-100
        )
        return SimpleNamespace(loss=loss, logits=logits)


@pytest.mark.parametrize("own", [False, True])
def test_a_loss_in_chunks_is_the_loss(own):
    torch.manual_seed(0)
    net = (OfTransformers if own else gpt.GPT)(gpt.Config(**SMALL)).double()
    tokens = torch.randint(1009, (2, 9))
    if own:
        plain = net(tokens, tokens).loss.double()
        named = {"input_ids": tokens, "labels": tokens}
    else:
        plain = nn.functional.cross_entropy(net(tokens).view(-1, 1009), tokens.view(-1))
        named = {"input_ids": tokens}
    plain.backward()
    expected = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    chunked = chunked_loss(net, ((), named), 4, 1009)
    chunked.backward()
    torch.testing.assert_close(chunked.double(), plain)
    for parameter, gradient in zip(net.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-7)


class Capped(gpt.GPT):
    """A model that changes its logits."""

    def forward(self, input_ids):
        return super().forward(input_ids).tanh()


@pytest.mark.parametrize(
    ("source", "options", "text"),
    [
        (partial(Capped, gpt.Config(**SMALL)), {"loss_chunks": 2}, "Capped changes its logits aft"),
        (build, {"attention": "sdpa"}, "GPT has no set_attn_implementation, which --attention"),
        (build, {"implementation": "fast"}, "unknown implementation 'fast'; expected one of"),
        (build, {"train": "adafactor", "implementation": "fused"}, "adafactor has no fused impl"),
        (build, {"train": "", "loss_chunks": 2}, "implementation, keep_gradients and loss_chunks"),
        (build, {"loss_chunks": -1}, "loss_chunks=-1; write a whole number >= 0"),
    ],
)
def test_errors(source, options, text):
    with pytest.raises(BudgetError) as caught:
        model(source, **{**STEP, **options})
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def test_the_command_prints_advice_after_the_tensors(capsys):
    small = [part for name, size in SMALL.items() for part in ("--arg", f"{name}={size}")]
    command = ["model", "gpt:build", *small, "--B", "4", "--N", "128", "--train", "sgd"]
    assert main([*command, "--backend", "simulated", "--advise", "--budget", "6 MiB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("advice: "))
    assert lines[place].endswith(" other recipes ran on simulated:A100-80GB, for 6.0 MiB")
    assert lines[place + 1].startswith("  1. peak ")
