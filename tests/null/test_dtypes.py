"""The refused dtypes of the simulation against PyTorch's own kernels, of this version."""

import json
from pathlib import Path

import torch

from pytest_attnmem.backends.simulated.dtypes.names import LETTERS
from pytest_attnmem.backends.simulated.dtypes.refusals import FILE

#: Calls of operators with ``x``, which their first tensor decides: all that they are given.
CALLS = {
    "_softmax.default": "torch._softmax(x, 0, False)",
    "addmm.default": "torch.addmm(x, x, x)",
    "gelu.default": "torch.nn.functional.gelu(x)",
    "mish.default": "torch.nn.functional.mish(x)",
    "native_layer_norm.default": "torch.native_layer_norm(x, [4], None, None, 1e-5)",
    "tril.default": "x.tril()",
    "round.decimals": "x.round(decimals=1)",
}

SCRIPT = """
import torch
from pytest_attnmem.backends.simulated.dtypes.names import LETTERS
found = {}
for op, call in CALLS.items():
    for letter, (dtype, _) in LETTERS.items():
        x = torch.empty(4, 4, dtype=dtype, device="cuda")
        try:
            eval(call)
        except RuntimeError as error:  # or another: a failed assertion of PyTorch's own
            if "not implemented for" in str(error):
                found.setdefault(op, {})[letter] = str(error)
answer(found)
"""


def test_the_recorded_kernels_refuse_the_recorded_dtypes(under):
    (found,) = under(f"CALLS = {CALLS}\n{SCRIPT}")
    assert found == {op: refused(op) for op in CALLS if refused(op)}
    assert found["_softmax.default"]["i"] == "\"host_softmax\" not implemented for 'Int'"
    assert len(found) > 5


def refused(op):
    """Returns the errors of the rows of this version, by letter."""
    version = "{}.{}".format(*map(int, torch.__version__.split(".")[:2]))
    return {
        letter: f"\"{kernel}\" not implemented for '{LETTERS[letter][1]}'"
        for versions, _, kernel, letters, ops in json.loads(Path(FILE).read_text("utf-8"))
        if version in versions.split() and op in ops.split()
        for letter in letters
    }
