"""Imports that a program makes inside a simulation, and that run outside it."""

import importlib
import subprocess
import sys
from contextlib import contextmanager

from pytest_attnmem.backends.simulated.imports_outside import imported_outside

COMPILER = """
import sys, torch
from pytest_attnmem import measure

def simple():
    x = torch.ones(4, 4, device="cuda", requires_grad=True)
    (x @ x).exp().sum().backward()

def compiled():
    import torch._dynamo
    twice = torch._dynamo.optimize("eager")(lambda x: x * 2)
    return twice(torch.ones(4, device="cuda")).shape

real = torch.cuda.current_device
print(measure(simple, backend="simulated").unmeasured, "torch._dynamo" in sys.modules)
print(measure(compiled, backend="simulated").unmeasured, "torch._dynamo" in sys.modules)
print(vars(torch._dynamo.device_interface.CudaInterface)["current_device"].__func__ is real)
"""


def test_the_compiler_is_imported_when_a_program_needs_it_and_sees_the_real_torch():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILER], capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "None False",
        "compiled code cannot be simulated True",
        "True",
    ], done.stderr


def test_one_module_is_imported_in_the_context(tmp_path, monkeypatch):
    states = []
    for name in ("late", "other"):
        (tmp_path / f"{name}.py").write_text("import inside\ninside.note(__name__)\n")
    (tmp_path / "inside.py").write_text("def note(name): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    inside = importlib.import_module("inside")
    monkeypatch.setattr(inside, "note", lambda name: states.append((name, *entered)))
    entered = []

    @contextmanager
    def outside():
        entered.append("outside")
        yield
        entered.clear()

    finders = [*sys.meta_path]
    with imported_outside(outside, "late"):
        late, _ = importlib.import_module("late"), importlib.import_module("other")
    assert states == [("late", "outside"), ("other",)]
    assert type(late.__loader__).__name__ == type(inside.__loader__).__name__
    assert sys.meta_path == finders
    for name in ("late", "other", "inside"):
        del sys.modules[name]
