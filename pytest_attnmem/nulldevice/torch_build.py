"""Finds the version, the libraries and the CUDA headers of torch without importing it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import BackendUnavailable

_VERSION = re.compile(r"^__version__ *= *['\"]([^'\"]+)", re.MULTILINE)
_CUDA = re.compile(r"^cuda\b[^=]*= *['\"]([^'\"]+)", re.MULTILINE)
_REPLACED = ("cudart", "cublas", "cublasLt", "cufft", "cusolver", "cusparse")
_HEADERS = ("cuda.h", "cuda_runtime_api.h")


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """A CUDA build of torch and the CUDA packages it runs with."""

    version: str
    cuda: str
    libraries: tuple[Path, ...]  # libraries of torch that call CUDA
    runtime: tuple[Path, ...]  # libraries of CUDA that the null runtime replaces
    headers: Path


def find() -> TorchBuild:
    """Returns the CUDA build of torch that this Python imports.

    Raises:
        BackendUnavailable: torch is missing, is a CPU build, or lacks CUDA's headers.
    """
    spec = importlib.util.find_spec("torch")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    if folder is None or not (folder / "version.py").is_file():
        raise BackendUnavailable("the null device needs torch: pip install torch")
    return describe(folder, packages())


def packages() -> list[Path]:
    """Returns the folders ``nvidia`` of NVIDIA's Python packages."""
    nvidia = importlib.util.find_spec("nvidia")
    return list(map(Path, nvidia.submodule_search_locations or ())) if nvidia else []


def find_headers(roots: Iterable[Path]) -> Path | None:
    """Returns the folder with the headers of CUDA's runtime; None if no package has them."""
    found = [
        path.parent for root in roots for path in sorted(root.glob(f"*/include/{_HEADERS[0]}"))
    ]
    whole = [path for path in found if all((path / name).is_file() for name in _HEADERS)]
    return whole[0] if whole else None


def describe(folder: Path, packages: Iterable[Path]) -> TorchBuild:
    """Returns the build in torch's *folder* with CUDA's *packages* (folders named ``nvidia``)."""
    text = (folder / "version.py").read_text(encoding="utf-8")
    version, cuda = _VERSION.search(text), _CUDA.search(text)
    name = version[1] if version else "unknown"
    if cuda is None:
        raise BackendUnavailable(
            f"the null device needs the CUDA build of torch, and {name} was built without CUDA:"
            f' pip install "torch==={name.partition("+")[0]}" (on Linux, from PyPI)'
        )
    roots = list(packages)
    headers = find_headers(roots)
    if headers is None:
        raise BackendUnavailable(
            "the null device needs the headers of CUDA's runtime, and found none beside torch"
            f" {name}: pip install nvidia-cuda-runtime"
        )
    patterns = ("libtorch_cuda*.so", "libc10_cuda.so", "libtorch_python.so", "libcaffe2_nvrtc.so")
    return TorchBuild(
        version=name,
        cuda=cuda[1],
        libraries=_files([folder / "lib"], (*patterns, "libtorch_nvshmem.so")),
        runtime=_files(roots, [f"*/lib/lib{name}.so.*" for name in _REPLACED]),
        headers=headers,
    )


def _files(roots: Iterable[Path], patterns: Iterable[str]) -> tuple[Path, ...]:
    return tuple(path for root in roots for p in patterns for path in sorted(root.glob(p)))
