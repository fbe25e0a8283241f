"""The process in which cuDNN plans convolutions (``cudnn_planner.py``), and its answers.

It is another process because the null runtime, which cuDNN takes for the driver, must not be in one
where torch or Triton look for a driver.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from ..errors import BackendUnavailable
from ..profiles import DeviceProfile
from . import launch, torch_build
from .build import LIBRARY, build_alone


class PlanFile:
    """The file in the user's cache with the answers for one cuDNN and one device.

    A line has a checksum, the bytes of a workspace, and the question. Lines are only added, each by
    one write, so that processes may share a file; a line that is damaged is asked again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, int]:
        """Returns the answers by question; none if there is no file that can be read."""
        answers: dict[str, int] = {}
        with suppress(OSError):
            for line in self._path.read_text("utf-8", errors="replace").splitlines():
                checksum, _, rest = line.partition(" ")
                if checksum == _checksum(rest):
                    nbytes, _, question = rest.partition(" ")
                    answers[question] = int(nbytes)
        return answers

    def append(self, question: str, nbytes: int) -> None:
        """Adds an answer; does nothing if the folder cannot be written."""
        rest = f"{nbytes} {question}"
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(file, f"{_checksum(rest)} {rest}\n".encode())
            finally:
                os.close(file)


def _checksum(text: str) -> str:
    return f"{crc32(text.encode()):08x}"


_PROGRAM = Path(__file__).parent / "cudnn_planner.py"
_PATIENCE = 300  # seconds for one answer


class PlannerProcess:
    """A running planner for one device; it ends when its input is closed."""

    def __init__(self, profile: DeviceProfile) -> None:
        """Starts the process.

        Raises:
            BackendUnavailable: a package, a compiler or the right system is missing.
        """
        package = find_cudnn()
        folder = build_alone(package.major, torch_build.packages())
        over = launch.variables(folder, profile, 1, {})
        over["ATTNMEM_NULL_PLANS"] = ""  # answers are kept by the question, not by cuDNN's steps
        env = {**os.environ, **over}
        del env["LD_PRELOAD"]
        libraries = map(str, (folder / LIBRARY, *package.libraries))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_PROGRAM), *libraries],
            env=env, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.close = weakref.finalize(self, _end, self._process)
        """Ends the process; so does the end of this object, or of the session."""
        self.version = torch_build.dotted(self._read().get("version", 0))
        """cuDNN's version, such as ``9.20.0``."""

    def ask(self, question: str) -> int:
        """Returns the bytes of the workspace that cuDNN plans.

        Raises:
            BackendUnavailable: cuDNN does not say.
        """
        try:
            _open(self._process.stdin).write(question + "\n")
        except OSError:
            raise BackendUnavailable(self._ended()) from None
        answer = self._read()
        if "workspace" not in answer:
            raise BackendUnavailable(str(answer.get("refused")))
        return int(answer["workspace"])

    def _read(self) -> dict[str, Any]:
        output = _open(self._process.stdout)
        ready, _, _ = select.select([output], [], [], _PATIENCE)
        line = output.readline() if ready else ""
        if not ready:
            self.close()
            raise BackendUnavailable(f"its planner did not answer in {_PATIENCE} seconds")
        if not line:
            raise BackendUnavailable(self._ended())
        return dict(json.loads(line))

    def _ended(self) -> str:
        return f"its planner ended with exit code {self._process.wait()}"


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _open(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise BackendUnavailable("its planner has no pipe")
    return stream


_CUDNN = "*/lib/libcudnn.so.9"
#: cuDNN and NVRTC open these by name, and the loader has no path to them. Without NVRTC cuDNN would
#: plan with other engines, and other workspaces.
_NEEDED = ("*/lib/libcublasLt.so.*", "*/lib/libnvrtc-builtins.so.*", "*/lib/libnvrtc.so.*")
_INSTALL = 'pip install "pytest-attnmem[cudnn]"'


@dataclass(frozen=True, slots=True)
class CudnnPackage:
    """An installed cuDNN."""

    libraries: tuple[Path, ...]  # to be loaded in this order; cuDNN is the last
    major: int  # of CUDA


def find_cudnn() -> CudnnPackage:
    """Returns the cuDNN that this Python finds.

    Raises:
        BackendUnavailable: a package is missing, or this is not Linux.
    """
    if sys.platform != "linux":
        raise BackendUnavailable(f"its planner needs Linux, and this is {sys.platform}")
    return describe(torch_build.packages())


def describe(roots: Sequence[Path]) -> CudnnPackage:
    """Returns the cuDNN in NVIDIA's packages (folders named ``nvidia``)."""
    found = [
        next((path for root in roots for path in sorted(root.glob(pattern))), None)
        for pattern in (*_NEEDED, _CUDNN)
    ]
    libraries = tuple(path for path in found if path is not None)
    if len(libraries) < len(found):
        raise BackendUnavailable(_INSTALL)
    return CudnnPackage(libraries, int(libraries[0].name.rpartition(".")[2]))
