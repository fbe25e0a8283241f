"""``attnmem verify`` with the null device as the reference, in its own processes."""

import json

from pytest_attnmem.cli import main


def test_the_simulated_device_equals_the_null_device(tmp_path, capfd):
    path = tmp_path / "found.json"
    assert main(["verify", "--only", "product/fp", "--json", str(path)]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == (
        "3 workloads: 3 equal to the byte, 0 differ, 0 not compared on all backends"
    )
    written = json.loads(path.read_text())
    assert written["reference"] == "null"
    assert [*written["workloads"][0]] == ["name", "null", "simulated"]


MOVED = """
import gc, torch
from pytest_attnmem.backends.null.program import prepare
prepare(10**9)
torch.cuda.init()
for _ in range(2):
    torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Linear(300, 300)).to("cuda")
    torch.empty(0, device="cuda")
    gc.collect()
answer(torch.cuda.memory_allocated())
"""


def test_a_moved_module_leaves_nothing_on_the_device(under):
    assert under(MOVED) == (0,)
