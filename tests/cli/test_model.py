"""``attnmem model``."""

import json
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_attnmem.cli import main

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "models"))
GPT = "gpt:build"
SMALL = [
    argument
    for size in ("vocab_size=101", "n_layer=2", "n_head=2", "n_embd=64", "positions=128")
    for argument in ("--arg", size)
]
STEP = [*("--B", "16", "--N", "128", "--train", "adamw", "--backend", "simulated")]


def test_the_answer_comes_first_and_the_table_sums_to_it(capsys):
    assert main(["model", GPT, *SMALL, *STEP, "--device", "H200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("peak ")
    assert lines[0].endswith(" B) on simulated:H200, which has 139.8 GiB: it fits")
    assert lines[1] == "  training step with adamw, float32, B=16 N=128; 114,752 parameters"
    assert lines[2].endswith("; beside it 64.0 MiB of cuBLAS workspaces")
    assert lines[4].startswith("module  ")
    assert any(line.startswith("blocks.*.attention ") for line in lines)
    assert lines[-1].startswith("  and ")
    assert "  2 × 2.0 MiB  saved for backward,  blocks.*.mlp.up  [2048, 256] float32  addmm" in (
        "\n".join(lines)
    )


def test_json_has_each_tensor(printed_json):
    found = printed_json("model", GPT, *SMALL, *STEP, "--json", "--device", "T4")
    assert sum(part["bytes"] for part in found["parts"]) == found["peak_bytes"]
    assert sum(found["terms"].values()) == found["peak_bytes"]
    places = {part["where"].partition(":")[0] for part in found["parts"]}
    assert places == {"", "gpt.py"}  # and not what calls the command
    assert sum(sum(row.values()) for row in found["modules"].values()) == found["peak_bytes"]
    assert found["sizes"] == {
        **{"B": 16, "N": 128, "heads": 2, "hidden": 64, "itemsize": 4, "kv_heads": 2},
        **{"layers": 2, "vocab": 101},
    }
    assert found["largest"] == {}


def test_the_largest_are_the_answer_and_the_peak_follows(capsys):
    sizes = ["--B", "2048", "--N", "256", "--longest", "--largest-batch", "--device", "T4"]
    wide = ["--arg", "positions=99999"]
    assert main(["model", GPT, *SMALL, *wide, *sizes, "--backend", "simulated"]) == 0
    *lines, peak = capsys.readouterr().out.splitlines()[:3]
    assert peak.startswith("peak ")
    longest, batch = (int(line.split("=")[1].split()[0].replace(",", "")) for line in lines)
    assert lines == [
        f"N={longest:,} is the largest that fits simulated:T4; one more does not",
        f"B={batch:,} is the largest that fits simulated:T4; one more does not",
    ]
    assert longest > 256
    assert batch > 2048


def test_what_does_not_fit_ends_with_1(capsys):
    sizes = ["--B", "999", "--N", "65536", "--arg", "positions=65536", "--device", "T4"]
    assert main(["model", GPT, *SMALL, *sizes, "--backend", "simulated"]) == 1
    assert "which has 14.8 GiB: it does not fit: needs " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["gpt"], "cannot find 'gpt'; write the module, a colon and the name"),
        (["no_such:build"], "cannot find 'no_such:build': No module named 'no_such'"),
        (["no.py:build"], "cannot find 'no.py:build': No module named 'no'; write no:build"),
        (["math:pi"], "'math:pi' is a float; expected a function"),
        ([GPT, "--arg", "3"], "cannot read --arg '3'; write --arg n_layer=12"),
        ([GPT, "--size", "3"], "cannot read --size '3'; write --size S=1500"),
        ([GPT, "--config", "x"], "--config is for transformers:CLASS, not for '"),
        (["transformers:Llama"], "'transformers:Llama' needs its sizes: --config config.json"),
        (["transformers:Llama", "--config", "/no"], "--config: No such file or directory: '/no'"),
        ([GPT, "--N", "0"], "--N: expected a whole number >= 1 and < 2**63, got '0'"),
        ([GPT, "--dtype", "int8"], "--dtype needs a floating dtype, such as torch.float16"),
    ],
)
def test_errors(arguments, text, refusal):
    assert refusal("model", *arguments, "--backend", "simulated").startswith(text)


def test_the_page_has_a_layer_for_each_module(tmp_path, capsys, refusal):
    path = tmp_path / "model.html"
    assert main(["model", GPT, *SMALL, *STEP, "--html", str(path)]) == 0
    text = path.read_text("utf-8")
    begin = '<script id="data" type="application/json">'
    data = json.loads(text.partition(begin)[2].partition("<")[0])
    (row,) = data["rows"]
    texts = data["texts"]
    layers = {texts[tensor[4]] for tensor in row["tensors"]}
    assert {"blocks.*.mlp", "blocks.*.attention", "tokens", "(outside modules)"} <= layers
    spans = row["timeline"]["spans"]
    events = row["timeline"]["events"]
    levels = [
        sum(
            row["tensors"][tensor][0]
            for start, end, tensor in spans
            if start <= at < (events if end is None else end)
        )
        for at in range(events)
    ]
    assert max(levels) == row["peak_bytes"]  # the weights are in the chart too
    capsys.readouterr()
    assert refusal("model", GPT, *SMALL, *STEP, "--html", str(tmp_path)).startswith("--html: ")


class Sizes:
    """A config of transformers, as far as the command uses it."""

    vocab_size, n_layer, n_head, n_embd, positions = 101, 2, 2, 64, 128

    @classmethod
    def from_dict(cls, entries):
        made = cls()
        vars(made).update(entries)
        return made


def test_a_config_of_transformers(tmp_path, monkeypatch, printed_json, refusal):
    class Model(import_module("gpt").GPT):
        config_class = Sizes

    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(Model=Model))
    (tmp_path / "config.json").write_text('{"n_layer": 1}', "utf-8")
    command = ["model", "transformers:Model", "--config", str(tmp_path), "--N", "128"]
    command += ["--arg", "n_head=4", "--json", "--backend", "simulated"]
    sizes = printed_json(*command)["sizes"]
    assert (sizes["layers"], sizes["heads"]) == (1, 4)
    (tmp_path / "config.json").write_text("{", "utf-8")
    assert "is not JSON: " in refusal(*command)


MODELS = """
from torch import nn, ones

class Wrong(nn.Module):
    def forward(self, x, y=None): return product(x)

def product(x): return x @ ones(3, 5)

def sequence(): return nn.Sequential(nn.Linear(16, 4), nn.ReLU())
def words(): return nn.Sequential(nn.Embedding(99, 4))
def exits(): raise SystemExit(3)
def sized(width, heads, *, depth=2): return nn.Linear(width, heads)
"""
BACKEND = ["--backend", "simulated"]


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_models", raising=False)
    (tmp_path / "own_models.py").write_text(MODELS, "utf-8")


def test_arguments_that_a_model_needs_are_named(models, refusal):
    command = ["model", "own_models:sized", *BACKEND, "--arg", "width=16"]
    assert refusal(*command) == "'own_models:sized' takes heads; write --arg heads=…"
    assert main([*command, "--arg", "heads=4", "--input", "input=float[B,N,16]"]) == 0


@pytest.mark.parametrize(
    ("name", "given"), [("sequence", "input=float[B,N,16]"), ("words", "input=long[B,N]<99")]
)
def test_the_inputs_that_it_suggests_are_right(models, refusal, name, given):
    command = ["model", f"own_models:{name}", *BACKEND]
    assert refusal(*command) == (
        f"the inputs of Sequential are not known; write each, as in --input '{given}'"
    )
    other = refusal(*command, "--input", "x=float[B,N,16]")
    assert other == f"Sequential has no input 'x'; write --input '{given}'"
    assert main([*command, "--input", given]) == 0


@pytest.mark.parametrize(
    ("arguments", "told", "functions"),
    [
        (
            ["Wrong", "--input", "x=float[B,N,16]"],
            "the model raised RuntimeError: a and b must have same reduction dim, but got [1024,"
            " 16] X [3, 5]. at own_models.py:7",
            ["forward", "product"],
        ),
        (
            ["sequence", "--input", "float[B,N,15]"],
            "the model raised RuntimeError: a and b must have same reduction dim, but got [1024,"
            " 15] X [16, 4].",
            [],
        ),
        (["exits"], "the program raised SystemExit: 3", ["exits"]),
    ],
)
def test_a_models_own_error_ends_with_its_own_lines(models, capsys, arguments, told, functions):
    assert main(["model", f"own_models:{arguments[0]}", *BACKEND, *arguments[1:]]) == 2
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == f"attnmem model: {told}"
    places = [line for line in lines if line.startswith('  File "')]
    assert [place.rpartition(" in ")[2] for place in places] == functions
