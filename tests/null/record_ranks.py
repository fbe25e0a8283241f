"""Record ranks: ``python tests/null/record_ranks.py``, with the CUDA build of torch.

The peaks of the programs in ``tests/backends/simulated/rank_programs.py``, of rank 1 of 4 on a null
H100 over PyTorch's own ``ProcessGroupNCCL``, go to ``ranks.json`` in ``tests/data/cuda/<version>``.
A program that does not run there is left out.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import on_null
import recordings

KEPT = "TORCH_CUBLAS_WORKSPACE_CACHE"


def main():
    found = recorded()
    what = "peaks in requested bytes of rank 1 of 4 on a null H100"
    print(recordings.save("ranks", what, "peaks", found), len(found))


def recorded(*names):
    """Returns the peaks by program: of those programs, or of all."""
    program = on_null.TESTS / "backends" / "simulated" / "rank_programs.py"
    # A session of pytest lists the workspaces apart, here and in its children.
    kept = {name: value for name, value in os.environ.items() if name != KEPT}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "peaks.json"
        subprocess.run(
            [
                *(sys.executable, "-W", "ignore", "-m", "pytest_attnmem.cli", "run"),
                *("--device", "1xH100", "--ranks", "4", "--rank", "1", "--"),
                *(str(program), str(out), *names),
            ],
            env={**kept, "PYTHONPATH": str(on_null.TESTS.parent)},
            check=True,
        )
        return json.loads(out.read_text("utf-8"))


if __name__ == "__main__":
    main()
