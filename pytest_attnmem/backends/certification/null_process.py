"""A process under the null runtime that certifies operators, one at a time. No torch here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, Final

from ...errors import BackendUnavailable
from ...nulldevice.launch import environment
from ...profiles import DeviceProfile
from ...torch_releases import Version
from ...units import excerpt

_MODULE: Final = "pytest_attnmem.backends.certification.server"
#: Variables that change what libraries and the allocator take begin so; rules hold without them.
_SETTINGS: Final = (
    *("CUBLAS", "CUDNN_", "NVIDIA_TF32", "PYTORCH_ALLOC", "PYTORCH_CUDA_ALLOC"),
    *("TORCH_ALLOW_TF32", "TORCH_BLAS", "TORCH_CUBLAS", "TORCH_CUDNN"),
)


class NullProcess:
    """The process; it ends when this object does, or when its input is closed."""

    def __init__(self, profile: DeviceProfile, rules: Version) -> None:
        """Starts the process on a null device, for the rules of a version of PyTorch.

        Raises:
            BackendUnavailable: the null device does not run here.
        """
        own = {name: text for name, text in os.environ.items() if not name.startswith(_SETTINGS)}
        of_null = environment(profile)  # raises where there is none
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # until the process has ended
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, ".".join(map(str, rules))],
            env={**own, **of_null}, text=True, encoding="utf-8", bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        self.end = weakref.finalize(self, _end, self._process, self._errors)
        """Ends the process."""
        started = self._line()
        if "ready" not in started:
            self.end()
            raise BackendUnavailable(started["refused"])

    def ask(self, op: str) -> Mapping[str, Any]:
        """Returns how the calls of an operator ended; see ``null_calls.Answer``.

        Raises:
            BackendUnavailable: the process has ended.
        """
        with suppress(OSError):  # the answer says why
            print(op, file=self._process.stdin, flush=True)
        answer = self._line()
        if "refused" in answer:
            raise BackendUnavailable(answer["refused"])
        return answer

    def _line(self) -> Mapping[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if line:
            found: Mapping[str, Any] = json.loads(line)
            return found
        self._errors.seek(0)
        told = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        last = excerpt(told[-1], 160) if told else f"code {self._process.wait()}"
        return {"refused": f"the process of the null device ended: {last}"}


def _end(process: subprocess.Popen[str], errors: IO[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()
    errors.close()
