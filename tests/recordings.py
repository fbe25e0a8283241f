"""The recordings of PyTorch's own CUDA code on the null device, by version of PyTorch."""

import json
from functools import cache
from pathlib import Path

import torch

from pytest_attnmem.torch_releases import KNOWN, minor_version

DATA = Path(__file__).parent / "data" / "cuda"
#: The versions with recordings, as folders name them.
VERSIONS = tuple(f"{major}.{minor}" for major, minor in KNOWN)
#: The version that is installed.
INSTALLED = "{}.{}".format(*minor_version(torch.__version__))


def folder(version=INSTALLED):
    """Returns the folder with the recordings of a version, which a recording script fills."""
    path = DATA / version
    path.mkdir(exist_ok=True)
    return path


@cache
def read(name, version=INSTALLED):
    """Returns the recording of that name, ``workloads``, of a version."""
    return json.loads((DATA / version / f"{name}.json").read_text("utf-8"))
