"""Finds the version, the libraries and the CUDA packages of torch without importing it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import BackendUnavailable
from . import kept_build

_VERSION = re.compile(r"^__version__ *= *['\"]([^'\"]+)", re.MULTILINE)
_CUDA = re.compile(r"^cuda\b[^=]*= *['\"]([^'\"]+)", re.MULTILINE)
_COMMIT = re.compile(r"^git_version *= *['\"]([^'\"]+)", re.MULTILINE)
_REQUIRES = re.compile(r"^Requires-Dist: *(.+)$", re.MULTILINE)
_CUDNN = re.compile(r"nvidia-cudnn-cu\d+ *\(?== *(\d+)\.(\d+)\.(\d+)")
_REPLACED = ("cudart", "cublas", "cublasLt", "cufft", "cusolver", "cusparse")
_HEADERS = ("cuda.h", "cuda_runtime_api.h")
_HEADER_VERSION = re.compile(r"#define\s+CUDA_VERSION\s+(\d+)")

INSTALL = "attnmem install null"


def dotted(number: int) -> str:
    """Returns ``9.20.0`` for 92000."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """A CUDA build of torch and the CUDA packages it runs with."""

    version: str
    cuda: str
    folder: Path
    packages: tuple[Path, ...]  # folders named nvidia
    front: Path | None = None  # where processes on the null device import torch from

    @property
    def major(self) -> int:
        """Returns the major version of CUDA."""
        return int(self.cuda.partition(".")[0])

    @property
    def libraries(self) -> tuple[Path, ...]:
        """Returns the libraries of torch that call CUDA."""
        patterns = ("libtorch_cuda*.so", "libc10_cuda.so", "libtorch_python.so")
        more = ("libcaffe2_nvrtc.so", "libtorch_nvshmem.so")
        return _files([self.folder / "lib"], (*patterns, *more))

    @property
    def runtime(self) -> tuple[Path, ...]:
        """Returns the libraries of CUDA that the null runtime replaces."""
        return _files(self.packages, [f"*/lib/lib{name}.so.*" for name in _REPLACED])

    @property
    def requires(self) -> list[str]:
        """Returns the packages that this torch asks for, as its metadata writes them."""
        found = sorted(self.folder.parent.glob("torch-*.dist-info/METADATA"))
        return _REQUIRES.findall(found[0].read_text("utf-8")) if found else []

    @property
    def cudnn(self) -> int:
        """Returns the version of cuDNN that this torch is made for, such as 92000; 0 if none."""
        found = filter(None, map(_CUDNN.match, self.requires))
        major, minor, patch = next((map(int, one.groups()) for one in found), (0, 0, 0))
        return 10000 * major + 100 * minor + patch

    @property
    def cudnn_name(self) -> str:
        """Returns the version as cuDNN writes it, ``9.20.0``; empty if this torch asks for none."""
        return dotted(self.cudnn) if self.cudnn else ""


@dataclass(frozen=True, slots=True)
class Version:
    """What a torch says of itself in its file ``version.py``."""

    name: str
    cuda: str
    """Such as ``13.0``; empty for a build without CUDA."""
    commit: str

    @property
    def release(self) -> str:
        """Returns ``2.13.0`` for ``2.13.0+cpu``."""
        return self.name.partition("+")[0]


def find() -> TorchBuild:
    """Returns the CUDA build of torch that this Python imports, or the one kept for its CPU build.

    Raises:
        BackendUnavailable: torch is missing, or is a CPU build for which none is kept.
    """
    folder = find_folder()
    version = read_version(folder)
    if version.cuda:
        return describe(folder, packages())
    kept = kept_build.folder(version.release)
    if not kept_build.is_whole(kept):
        raise BackendUnavailable(
            f"the null device needs the CUDA build of torch, and {version.name} was built without"
            f" CUDA: {INSTALL} keeps one beside it"
        )
    front = read_version(kept / "torch")
    if front.commit != version.commit:
        raise BackendUnavailable(
            f"the CUDA build of torch {front.name} in {kept} is of another commit than torch"
            f" {version.name}: {INSTALL} replaces it"
        )
    return describe(kept / "torch", [kept / "nvidia", *packages()], kept)


def find_folder() -> Path:
    """Returns the folder of the torch that this Python imports.

    Raises:
        BackendUnavailable: there is none.
    """
    spec = importlib.util.find_spec("torch")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    if folder is None or not (folder / "version.py").is_file():
        raise BackendUnavailable("the null device needs torch: pip install torch")
    return folder


def read_version(folder: Path) -> Version:
    """Returns what the torch in a folder says of itself."""
    text = (folder / "version.py").read_text(encoding="utf-8")
    found = [pattern.search(text) for pattern in (_VERSION, _CUDA, _COMMIT)]
    name, cuda, commit = (one[1] if one else "" for one in found)
    return Version(name or "unknown", cuda, commit)


def packages() -> list[Path]:
    """Returns the folders ``nvidia`` of NVIDIA's Python packages."""
    nvidia = importlib.util.find_spec("nvidia")
    return list(map(Path, nvidia.submodule_search_locations or ())) if nvidia else []


def find_headers(roots: Iterable[Path], major: int) -> Path | None:
    """Returns the folder with the headers of a CUDA runtime; None if no package has them."""
    for root in roots:
        for path in sorted(root.glob(f"*/include/{_HEADERS[0]}")):
            found = _HEADER_VERSION.search(path.read_text(encoding="utf-8", errors="replace"))
            whole = all((path.parent / name).is_file() for name in _HEADERS)
            if whole and found and int(found[1]) // 1000 == major:
                return path.parent
    return None


def describe(folder: Path, packages: Iterable[Path], front: Path | None = None) -> TorchBuild:
    """Returns the build in torch's *folder* with CUDA's *packages* (folders named ``nvidia``)."""
    version = read_version(folder)
    return TorchBuild(version.name, version.cuda, folder, tuple(packages), front)


def _files(roots: Iterable[Path], patterns: Iterable[str]) -> tuple[Path, ...]:
    return tuple(path for root in roots for p in patterns for path in sorted(root.glob(p)))
