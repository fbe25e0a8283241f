"""The import of ``torch._dynamo`` inside a window, which leaves a cycle of frames behind."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys, torch
from torch import nn
from pytest_attnmem import measure

def body():
    cycle = [torch.ones(1024)]
    cycle.append(cycle)
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # imports it
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()

imported = ["torch._dynamo" in sys.modules]
found = measure(body, backend="cpu")
imported.append("torch._dynamo" in sys.modules)
finders = [type(finder).__name__ for finder in sys.meta_path]
print(json.dumps([imported, found.retained_bytes, "_Watch" in finders]))
"""


@pytest.mark.thorough
def test_the_first_test_with_an_optimizer_retains_its_own_garbage_and_nothing_else():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [[False, True], 4096, False]
