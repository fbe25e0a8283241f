"""``retained`` repeats on the null device, in the first run of a process too."""

import json
import subprocess
import sys

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile

#: The first run imports much of torch, whose frames keep tensors alive that a collection frees.
PROGRAM = """
import json
import torch
from torch.func import functional_call, grad, vmap
from pytest_attnmem import measure

def per_sample_gradients():
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    net.to("cuda")
    weights = {name: weight.detach() for name, weight in net.named_parameters()}
    x, y = torch.empty(16, 32, device="cuda"), torch.empty(16, 1, device="cuda")

    def loss(weights, x, y):
        return ((functional_call(net, weights, (x.unsqueeze(0),)) - y) ** 2).sum()

    return vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y)

found = []
for _ in range(8):
    seen = measure(per_sample_gradients, backend="null")
    found.append([seen.retained_bytes - seen.pinned_bytes, seen.unmeasured])
    del seen
print(json.dumps(found))
"""


def test_eight_runs_retain_the_same(tmp_path):
    try:
        environment(find_profile("A100-80GB"))
    except BackendUnavailable as error:
        pytest.skip(str(error))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = ["-m", "pytest_attnmem.cli", "run", "--device", "A100-80GB", "--", str(program)]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[0])
    assert len(found) == 8
    assert all(one == found[0] for one in found)
    assert found[0][1] is None
