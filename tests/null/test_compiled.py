"""Compiled code held to eager code on the null device, by the examples."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pytest_attnmem

ROOT = Path(__file__).parents[2]
PACKAGE = Path(str(pytest_attnmem.__file__)).parents[1]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Returns the rows of the examples, by test; the longest is left out: it compiles minutes."""
    path = tmp_path_factory.mktemp("compiled") / "rows.json"
    longest = "examples/compiled/test_blocks_used_twice.py"
    command = [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "examples/compiled"),
        *("-c", "examples/pytest.ini", "--ignore", longest),
        *("--attnmem-backend", "null:A100-80GB", "--attnmem-json", path),
    ]
    over = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(command, cwd=ROOT, env=over, stdout=-1, text=True, timeout=900)
    assert done.returncode == 0, done.stdout
    found = json.loads(path.read_text("utf-8"))["results"]
    return {row["nodeid"].partition("::")[2]: row for row in found}


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="the bytes of torch 2.13")
def test_checkpointed_layers_need_more_memory_compiled(rows):
    over, within = rows["test_checkpointed_layers[Checkpointed]"], rows["test_layers[Layer]"]
    assert (over["outcome"], within["outcome"]) == ("over", "within")
    sizes = [row[key] for row in (within, over) for key in ("limit_bytes", "peak_bytes")]
    assert sizes == [2014584836, 1779843140, 948187140, 1501962308]
    assert over["reason"].startswith(
        "peak of compiled code, 1.4 GiB, is 1.58x of eager code; allowed 904.3 MiB, 1x eager code"
        " 904.3 MiB on null:A100-80GB; 1 graph"
    )


def test_a_failure_names_the_buffers_of_compiled_code(rows):
    row = rows["test_checkpointed_layers[Checkpointed]"]
    assert sum(tensor["bytes"] for tensor in row["held"]) == row["peak_bytes"]
    largest = row["held"][0]
    assert (largest["bytes"], largest["shape"]) == (2**28, [32768, 2048])
    assert largest["dtype"] == "float32"  # eager code has it in bfloat16
    assert "gelu_backward" in largest["op"]
    assert {tensor["function"].rpartition("_")[2] for tensor in row["held"]} >= {
        *("forward", "backward")
    }


def test_flex_attention_is_dense_unless_it_is_compiled(rows):
    compiled, uncompiled = rows["test_compiled"], rows["test_uncompiled"]
    assert (compiled["outcome"], uncompiled["outcome"]) == ("within", "over")
    assert compiled["peak_bytes"] * 200 < uncompiled["peak_bytes"]
    assert uncompiled["held"][0]["op"] == "flex_attention_backward (scratch)"
    assert sum(tensor["bytes"] for tensor in uncompiled["held"]) == uncompiled["peak_bytes"]
