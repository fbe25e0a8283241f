"""The recordings of PyTorch's own CUDA code on the null device, by version of PyTorch.

A recording of a version that is not the first has only what differs from the version before it;
``python tests/recordings.py`` makes it so after ``make record``.
"""

import json
import sys
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))

from pytest_attnmem.torch_releases import KNOWN, minor_version

DATA = Path(__file__).parent / "data" / "cuda"
#: The versions with recordings, as folders name them.
VERSIONS = tuple(f"{major}.{minor}" for major, minor in KNOWN)
#: The version that is installed.
INSTALLED = "{}.{}".format(*minor_version(torch.__version__))
#: What a row is a list of, in place of a mapping, if it has these and no others.
CALL = ["op", "args", "trace"]

#: Writes JSON without spaces.
dense = json.JSONEncoder(separators=(",", ":")).encode


def folder(release=INSTALLED):
    """Returns the folder with the recordings of a version, which a recording script fills."""
    path = DATA / release
    path.mkdir(exist_ok=True)
    return path


def save(name, what, key, rows, **more):
    """Writes a recording of this torch; returns the file.

    Its rows, a line each, are a list or a mapping under ``key``, after what ``more`` tells of them.
    """
    head = {"what": what, "torch": version("torch"), **more}
    start = json.dumps(head, indent=1).removesuffix("\n}")
    if isinstance(rows, dict):
        opened, closed = "{}"
        lines = [f"{json.dumps(name)}: {dense(row)}" for name, row in rows.items()]
    else:
        opened, closed = "[]"
        lines = [dense([*row.values()] if [*row] == CALL else row) for row in rows]
    text = ",\n".join(f"  {line}" for line in lines)
    path = folder() / f"{name}.json"
    path.write_text(f'{start},\n "{key}": {opened}\n{text}\n {closed}\n}}\n', "utf-8")
    return path


@cache
def read(name, version=INSTALLED):
    """Returns the recording of that name, ``workloads``, of a version."""
    found = loaded(DATA / version / f"{name}.json")
    return changed(read(name, found["since"]), found["changes"]) if "since" in found else found


def loaded(path):
    """Returns what a file has, with its calls as mappings."""
    found = json.loads(path.read_text("utf-8"))
    if isinstance(found.get("calls"), list):
        found["calls"] = [
            row if isinstance(row, dict) else dict(zip(CALL, row, strict=True))
            for row in found["calls"]
        ]
    return found


def differences(old, new, path=()):
    """Yields ``[path, value]`` for each part that differs in ``new``, ``[path]`` if it is gone."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from ([[*path, key]] for key in old if key not in new)
        for key, value in new.items():
            if key in old:
                yield from differences(old[key], value, (*path, key))
            else:
                yield [[*path, key], value]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, (*path, place))
    elif json.dumps(old) != json.dumps(new):
        yield [path, new]


def changed(old, changes):
    """Returns a copy of ``old`` with these differences."""
    new = json.loads(json.dumps(old))
    for (*path, key), *value in changes:
        inner = new
        for each in path:
            inner = inner[each]
        if value:
            inner[key] = value[0]
        else:
            del inner[key]
    return new


def compact():
    """Rewrites each recording that is whole by what differs from that of the version before."""
    for before, later in pairwise(VERSIONS):
        for path in sorted((DATA / later).glob("*.json")):
            new = loaded(path)
            if "since" in new or not (DATA / before / path.name).exists():
                continue
            changes = ",\n".join(map(dense, differences(read(path.stem, before), new)))
            text = f'{{"since": "{before}", "changes": [\n{changes}\n]}}\n'
            path.write_text(text, "utf-8")


if __name__ == "__main__":
    compact()
