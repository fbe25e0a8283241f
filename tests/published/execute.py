"""Runs functions of ``programs`` over rows of sizes, each task in a process; writes what they read.

``attnmem run --device H100 -- tests/published/execute.py TASKS FOLDER``: a file of JSON, and a
folder for the answers. Each row of a task is one call with the arguments of the table and the sizes
of the row; it returns bytes by name. The processes are forks of this one, which has imported torch
and not used the device: importing takes longer than most tasks.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "programs"))


def answer(task: dict[str, Any]) -> dict[str, Any]:
    import torch

    module, _, name = task["program"].partition(":")
    function = getattr(import_module(module), name)
    rows: list[list[int | str | None]] = []
    for row in task["rows"]:
        sizes = dict(zip(task["sizes"], row, strict=True))
        try:
            found = function(**task["arguments"], **sizes)
        except torch.OutOfMemoryError:
            found = {}
            gc.collect()
        rows.append([found.get(number) for number in task["numbers"]])
    return {
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "device": torch.cuda.get_device_name(),
        "rows": rows,
    }


def main(tasks: str, folder: str) -> None:
    """Answers each task in a process of its own."""
    import torch  # noqa: F401

    for number, task in enumerate(json.loads(Path(tasks).read_text("utf-8"))):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            text = json.dumps(answer(task))
            Path(folder, f"{number}.json").write_text(text, "utf-8")
        except BaseException:
            Path(folder, f"{number}.txt").write_text(traceback.format_exc(), "utf-8")
        finally:
            os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
