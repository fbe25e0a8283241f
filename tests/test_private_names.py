"""The private names of PyTorch that the package uses are there, or a backend says what is not."""

import importlib
import subprocess
import sys

import pytest
import torch
from test_architecture import FILES, parsed
from test_house_rules import private_names

#: What builds without CUDA lack; the simulated device puts them there.
OF_CUDA = ("torch._C._cuda_", "torch._C._scatter", "torch._C.__getattr__")

WITHOUT = """
import torch
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.errors import BackendUnavailable

del torch._C.NAME
try:
    open_backend("BACKEND")
except BackendUnavailable as error:
    print(error)
"""


def found(name):
    """Returns what has a name, an attribute or a module; None if nothing has it."""
    owner, _, last = name.rpartition(".")
    place = found(owner) if owner else None
    try:
        return getattr(place, last) if owner else torch
    except AttributeError:
        try:
            return importlib.import_module(name)
        except ImportError:
            return None


def test_each_private_name_is_in_the_installed_torch():
    names = {name: path for path, source in FILES.items() for name in private_names(source)}
    parsed.cache_clear()  # or each full collection of garbage would visit the trees
    built = () if torch.version.cuda else OF_CUDA
    assert len(names) > 100
    assert {
        n: path for n, path in names.items() if found(n) is None and not n.startswith(built)
    } == {}


@pytest.mark.parametrize(
    ("name", "backend"),
    [("_ExcludeDispatchKeyGuard", "cpu"), ("_current_graph_task_id", "simulated")],
)
def test_a_backend_says_in_one_line_which_name_torch_lacks(name, backend):
    script = WITHOUT.replace("NAME", name).replace("BACKEND", backend)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (
        f"backend '{backend}' cannot be opened: AttributeError: module 'torch._C' has no attribute"
        f" '{name}'\n",
        "",
    )
