"""Measures the histories of public libraries with programs of ours: an hour or two.

``python -m tests.history.libraries FOLDER [NAME …]`` reads FOLDER/NAME.git, a bare clone, and
writes build/histories/NAME.json and NAME.seconds. What a library imports must be installed.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
RESULTS = ROOT / "build" / "histories"
EINOPS = ("--import=einops", "--import=einx", "--import=packaging")


class Library(NamedTuple):
    """A library on GitHub, the program that is measured, and options of the command."""

    repository: str
    program: str
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """Returns the name of the repository."""
        return self.repository.partition("/")[2]


def paths(*names: str) -> tuple[str, ...]:
    """Returns the options that name the code."""
    return tuple(f"--paths={name}" for name in names)


LIBRARIES = (
    Library("lucidrains/x-transformers", "xt", (*paths("x_transformers"), *EINOPS)),
    Library(
        "lucidrains/memory-efficient-attention-pytorch",
        "mea",
        (*paths("memory_efficient_attention_pytorch"), *EINOPS),
    ),
    Library(
        "alxndrTL/mamba.py",
        "mambas",
        (*paths("mambapy", "mamba.py", "pscan.py", "mamba_lm.py"), *EINOPS),
    ),
    Library("lucidrains/performer-pytorch", "performer", (*paths("performer_pytorch"), *EINOPS)),
    Library("fkodom/yet-another-retnet", "retnet", (*paths("yet_another_retnet"), *EINOPS)),
    Library(
        "kozistr/pytorch_optimizer", "optimizers", (*paths("pytorch_optimizer"), "--first-parent")
    ),
    Library(
        "KevinMusgrave/pytorch-metric-learning",
        "metric",
        (*paths("src"), "--first-parent", "--backend=cpu", "--stand-in=faiss"),
    ),
    Library(
        "lucidrains/vector-quantize-pytorch", "vq", (*paths("vector_quantize_pytorch"), *EINOPS)
    ),
    Library("lucidrains/titans-pytorch", "titans", (*paths("titans_pytorch"), *EINOPS)),
    Library(
        "lucidrains/vit-pytorch",
        "vit",
        (*paths("vit_pytorch"), "--stand-in=torchvision", "--stand-in=torchaudio", *EINOPS),
    ),
    Library(
        "lucidrains/denoising-diffusion-pytorch",
        "ddpm",
        (
            *paths("denoising_diffusion_pytorch"),
            *("--backend=cpu", "--stand-in=torchvision", "--stand-in=pytorch_fid"),
            *EINOPS,
        ),
    ),
)


def run(folder: Path, library: Library) -> None:
    """Measures one library's history."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest_attnmem.cli", "history", *library.options]
    command += [f"--program={PROGRAMS / library.program}.py"]
    command += [f"--json={RESULTS / library.name}.json"]
    # Scripts run as Python: what TorchScript fuses is not simulated.
    environment = {**os.environ, "PYTORCH_JIT": "0"} if library.program == "retnet" else None
    subprocess.run(command, cwd=folder / f"{library.name}.git", env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    RESULTS.joinpath(f"{library.name}.seconds").write_text(f"{seconds:.0f}\n", "utf-8")


if __name__ == "__main__":
    for one in LIBRARIES:
        if not sys.argv[2:] or one.name in sys.argv[2:]:
            run(Path(sys.argv[1]).resolve(), one)
