"""The recordings of PyTorch's own CUDA code on the null device, by version of PyTorch."""

import json
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from pytest_attnmem.torch_releases import KNOWN, minor_version

DATA = Path(__file__).parent / "data" / "cuda"
#: The versions with recordings, as folders name them.
VERSIONS = tuple(f"{major}.{minor}" for major, minor in KNOWN)
#: The version that is installed.
INSTALLED = "{}.{}".format(*minor_version(torch.__version__))


def folder(release=INSTALLED):
    """Returns the folder with the recordings of a version, which a recording script fills."""
    path = DATA / release
    path.mkdir(exist_ok=True)
    return path


def write(name, what, device, key, rows):
    """Writes a recording of the null device: its rows by operator, under ``key``."""
    head = {
        "what": f"{what} on the null device {device}",
        "torch": version("torch"),
        "device": device,
    }
    lines = ",\n".join(f"  {json.dumps(op)}: {json.dumps(rows[op])}" for op in sorted(rows))
    start = json.dumps(head, indent=1).removesuffix("\n}")
    path = folder() / f"{name}.json"
    path.write_text(f'{start},\n "{key}": {{\n{lines}\n }}\n}}\n', "utf-8")
    return path


@cache
def read(name, version=INSTALLED):
    """Returns the recording of that name, ``workloads``, of a version."""
    return json.loads((DATA / version / f"{name}.json").read_text("utf-8"))
