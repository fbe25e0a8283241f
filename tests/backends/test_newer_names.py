"""No name that only a newer PyTorch has is needed to import the package.

Not the simulated devices, whose rules are of named releases: they are refused before their import.
The package asks for such names by ``hasattr`` and ``getattr``. A process takes all of them away
from PyTorch, and imports every module.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_attnmem

PACKAGE = Path(str(pytest_attnmem.__file__)).parent

#: Names that every PyTorch has; the package asks whether torch was imported, or whose a value is.
OLD = {"Generator", "Tensor", "__self__", "__version__", "get_rng_state"}
IMPORT_ALL = """
import importlib, sys
import torch, torch.distributed
from pathlib import Path

class Missing:
    def __init__(self, kind, names):
        self.kind, self.names, self.find = kind, names, kind.__getattr__
        kind.__getattr__ = lambda owner, name: self.get(owner, name)
    def get(self, owner, name):
        if name in self.names:
            raise AttributeError(name)
        return self.find(owner, name)

taken = 0
names = NAMES
Missing(torch._ops._OpNamespace, {name for owner, name in names if owner == "torch.ops.aten"})
for owner, name in names:
    try:
        found = eval(owner)
    except AttributeError:  # this build of PyTorch has no such object
        continue
    if name in vars(found):
        delattr(found, name)
        taken += 1
for module in MODULES:
    importlib.import_module(module)
print(taken)
"""


def looked_up(path):
    """Yields the objects of PyTorch that a file asks for a name, and the name."""
    tree = ast.parse(path.read_text("utf-8"))
    roots = {"torch": "torch"}
    for node in tree.body:
        if isinstance(node, ast.Import):
            roots.update({one.asname: one.name for one in node.names if one.asname})
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("torch."):
            roots[ast.unparse(node.targets[0])] = ast.unparse(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("hasattr", "getattr"):
            if isinstance(node.args[0], ast.Starred):  # ``getattr(*NAME)`` has no default
                continue
            owner, name = ast.unparse(node.args[0]), node.args[1]
            root = roots.get(owner.partition(".")[0], "")
            optional = len(node.args) == 3 or ast.unparse(node.func) == "hasattr"
            known = not isinstance(name, ast.Constant) or name.value in OLD
            if optional and root.startswith("torch") and not known:
                yield root + owner[len(owner.partition(".")[0]) :], name.value


@pytest.mark.thorough
def test_a_pytorch_without_the_names_that_are_looked_up_is_enough():
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "__main__.py"]
    names = sorted({found for path in files for found in looked_up(path)})
    assert ("torch.ops.aten", "_grouped_mm") in names
    parts = [path.relative_to(PACKAGE.parent).with_suffix("").parts for path in files]
    parts = [one for one in parts if one[-1] != "sitecustomize"]  # runs Python's own start
    rules = {("backends", "simulated")}
    parts = [one for one in parts if one[1:3] not in rules]
    modules = [".".join(part for part in one if part != "__init__") for one in parts]
    script = IMPORT_ALL.replace("NAMES", repr(names)).replace("MODULES", repr(sorted(modules)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
