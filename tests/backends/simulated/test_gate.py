"""The programs of the gate that need the device's own abilities, against the null device."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import recordings

GATE = Path(__file__).parents[2] / "device_gate"
ROWS = json.loads((GATE / "gate.json").read_text("utf-8"))["2.13.0"]["programs"]["gate_programs"]
NULL = {name: row["null"] for name, row in ROWS.items()}
#: What no rule knows.
REFUSED = {
    "scripted": "refused: TorchScript fuses the kernels of a script that is called again at"
    " gate_programs.py:111, which cannot be simulated; set PYTORCH_JIT=0, which runs scripts as"
    " Python, or use backend='null' or 'cuda'",
    "window_and_draws": "refused: no model of aten.kaiser_window.default; use backend='null' or"
    " 'cuda'",
    "more_elements_than_an_int": "refused: no model of aten.cumsum.default; use backend='null' or"
    " 'cuda'",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The rows of the programs on the device, in a process that has it."""
    out = tmp_path_factory.mktemp("gate") / "found.json"
    command = [sys.executable, str(GATE / "programs.py"), "simulated", str(out), "gate_programs"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(out.read_text("utf-8"))["gate_programs"]


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="the programs name cuda, which Linux has")
@pytest.mark.skipif(recordings.INSTALLED != "2.13", reason="the gate ran on torch 2.13")
@pytest.mark.parametrize("name", NULL)
def test_a_program_has_the_numbers_of_null(found, name):
    if name == "convolutions" and isinstance(found[name], str):  # cuDNN is not everywhere
        assert found[name] == (
            'refused: cuDNN plans this convolution: pip install "pytest-attnmem[cudnn]"'
        )
    elif name in REFUSED:
        assert found[name] == REFUSED[name]
    else:  # but for what is left: cycles of PyTorch's own Python code hold it for a while
        assert [*found[name][:3], found[name][4]] == [*NULL[name][:3], NULL[name][4]]
