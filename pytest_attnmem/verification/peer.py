"""The other end of a process that measures workloads."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from ..errors import BackendUnavailable
from ..profiles import DeviceProfile
from ..units import excerpt
from .comparison import Peaks, read_peaks
from .server import as_argument

_MODULE: Final = "pytest_attnmem.verification.server"
#: The seconds for one workload; a compilation may need many of them.
_PATIENCE_S: Final = 90.0


class Peer:
    """A backend in a process of its own; if the process dies, the next workload starts another."""

    def __init__(
        self, kind: str, profile: DeviceProfile | None, variables: Mapping[str, str], folder: Path
    ) -> None:
        self.kind = kind
        self.greeting: Mapping[str, Any] = {}
        """The facts of the device, and versions."""
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": str(folder / kind / "inductor"),
            "TRITON_CACHE_DIR": str(folder / kind / "triton"),
        }
        self._command = [sys.executable, "-m", _MODULE, kind, as_argument(profile)]
        self._variables = {**os.environ, **caches, **variables}
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._errors: IO[bytes] | None = None

    def start(self, until: float) -> None:
        """Starts the process and waits until it can measure.

        Raises:
            BackendUnavailable: it cannot measure here.
        """
        self.end()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # until the process has ended
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env=self._variables,
            start_new_session=True,  # an interrupt is for this process, which ends that one
        )
        self._lines = queue.SimpleQueue()
        threading.Thread(
            target=_read, args=(self._process.stdout, self._lines), daemon=True
        ).start()
        found = self._line(until)
        if "facts" not in found:
            self.end()
            why = found.get("refused") or found["problem"]
            raise BackendUnavailable(f"{self.kind}: {why}")
        self.greeting = found

    def ask(self, name: str, until: float) -> str:
        """Sends the name of a workload; returns why that was not possible, or an empty text."""
        try:
            if self._process is None:
                self.start(until)
            if self._process is not None and self._process.stdin is not None:
                print(name, file=self._process.stdin, flush=True)
        except (BackendUnavailable, OSError) as error:
            self.end()
            return excerpt(str(error), 200)
        return ""

    def answer(self, until: float) -> Peaks:
        """Returns the peaks of the workload that was asked for."""
        limit = min(until, time.monotonic() + _PATIENCE_S)
        return read_peaks(self._line(limit), f"the answer of {self.kind}")

    def _line(self, until: float) -> Mapping[str, Any]:
        """Returns the next answer; a problem if there is none in time, or the process died."""
        try:
            line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            self.end()
            return {"problem": "no answer in time"}
        if not line:
            return {"problem": self._cause_of_death()}
        found: Mapping[str, Any] = json.loads(line)
        return found

    def _cause_of_death(self) -> str:
        process, errors = self._process, self._errors
        code = process.wait() if process is not None else 0
        last = ""
        if errors is not None:
            errors.seek(0)
            lines = errors.read().decode("utf-8", "replace").strip().splitlines()
            last = excerpt(f": {lines[-1].strip()}", 160) if lines else ""
        self.end()
        ending = f"signal {-code}" if code < 0 else f"code {code}"
        return f"the process ended with {ending}{last}"

    def end(self) -> None:
        """Ends the process, with all that it started."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):
                if hasattr(os, "killpg"):
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
            process.wait()
            with suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def _read(stream: IO[str], lines: queue.SimpleQueue[str]) -> None:
    """Puts each line into the queue, and at the end an empty text."""
    with suppress(ValueError), stream:
        for line in stream:
            lines.put(line)
    lines.put("")
