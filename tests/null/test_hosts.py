"""The refused tensors of the host of the simulation against PyTorch's own code, of this version."""

import torch

from pytest_attnmem.backends.simulated.host_tensors.refusals import Hosts

#: Calls of operators with ``x`` and ``y`` on the device, ``n`` and ``t`` on the host.
CALLS = {
    "add.Tensor": "x, t",
    "add.out": "n, n, out=x",
    "addcdiv": "x, x, n",
    "addcmul": "x, n, x",
    "addmm": "n, x, y",
    "addmm.out": "x, x, y, out=t",
    "cat": "[x, t]",
    "clamp.Tensor": "x, n, n",
    "gcd": "i, j",
    "native_layer_norm": "x, [4], t[0], None, 1e-5",
    "ldexp.Tensor": "x, j",
    "masked_fill.Scalar": "x, t > 0, 1.0",
    "index_select": "x, 0, torch.zeros(1, dtype=torch.int64)",
    "lerp.Scalar": "n, x, 0.5",
    "_foreach_clamp_max.List": "[x, x], [x, t]",
    "_softmax_backward_data": "x, t, 0, torch.float32",
    "mv": "x, t[0]",
    "select_copy.int_out": "x, 0, 0, out=t",
    "where.self": "x > 0, x, t",
}

SCRIPT = """
import torch
x, y = torch.ones(4, 4, device="cuda"), torch.ones(4, 4, device="cuda")
n, t = torch.tensor(2.0), torch.ones(4, 4)
i, j = torch.ones(4, dtype=torch.int64, device="cuda"), torch.tensor(2)
found = {}
for op, arguments in CALLS.items():
    packet, _, overload = op.partition(".")
    func = getattr(getattr(torch.ops.aten, packet), overload or "default")
    try:
        eval(f"func({arguments})")
    except RuntimeError as error:
        found[op] = str(error).partition("\\nException raised")[0]
answer(found)
"""


class Told(Exception):
    """The text that a table has for a call."""


def test_pytorch_refuses_what_the_table_refuses_in_the_same_words(under):
    (found,) = under(f"CALLS = {CALLS}\n{SCRIPT}")
    assert found == {op: told(op, arguments) for op, arguments in CALLS.items()}


def told(op, arguments):
    """Returns the text of the table for a call; tensors of ``meta`` stand for the device's."""
    x, y = torch.ones(4, 4, device="meta"), torch.ones(4, 4, device="meta")
    n, t = torch.tensor(2.0), torch.ones(4, 4)
    i, j = torch.ones(4, dtype=torch.int64, device="meta"), torch.tensor(2)
    names = {"torch": torch, "x": x, "y": y, "n": n, "t": t, "i": i, "j": j}
    packet, _, overload = op.partition(".")
    func = getattr(getattr(torch.ops.aten, packet), overload or "default")
    args, kwargs = eval(f"(lambda *args, **kwargs: (args, kwargs))({arguments})", names)
    try:
        Hosts().of(func).check(args, kwargs, lambda _, refusal: Told(refusal.text))
    except Told as text:
        return str(text)
    return ""
