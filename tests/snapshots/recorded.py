"""Snapshots of a small attention on the null device, recorded by PyTorch 2.13 itself.

Three training steps, once plain and once with a mask; the files have the events without their
times, and addresses from the first segment on.
"""

import json
import pickle
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[1] / "data" / "snapshots"
_START = 0x7E2B40000000


def snapshot(name: str) -> dict[str, Any]:
    """Returns what ``torch.cuda.memory._snapshot()`` returned."""
    data = json.loads(_FOLDER.joinpath(f"{name}.json").read_text("utf-8"))
    stacks = [
        [{"name": name, "filename": file, "line": line} for name, file, line in stack]
        for stack in data["stacks"]
    ]
    names = ("action", "addr", "size", "stream", "frames")
    events = [dict(zip(names, event, strict=True)) for event in data["events"]]
    for event in events:
        event["addr"] += _START
        event["frames"] = stacks[event["frames"]]
    segments = []
    for place, total, stream, blocks in data["segments"]:
        sizes = ("size", "requested_size", "state")
        listed = [{**dict(zip(sizes, block, strict=True)), "frames": []} for block in blocks]
        segments.append(
            {"device": 0, "address": _START + place, "total_size": total, "stream": stream}
            | {"blocks": listed}
        )
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False}
    return {"segments": segments, "device_traces": [events], "allocator_settings": settings}


def write(path: Path, value: Any) -> Path:
    """Returns the path of a pickle of the value."""
    path.write_bytes(pickle.dumps(value))
    return path


def event(action: str, address: int, size: int, line: int = 0, name: str = "f") -> dict[str, Any]:
    """Returns an event; without a line it has no frames."""
    frames = [{"name": name, "filename": "/home/me/attn.py", "line": line}] if line else []
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": frames}
