"""The workspaces that cuDNN plans for a simulated device: remembered, or asked of cuDNN itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from ....certified.certificate import cudnn_of
from ....errors import BackendUnavailable
from ....nulldevice.kept_build import user_cache
from ....nulldevice.launch import variables
from ....nulldevice.planner_process import PlanFile, PlannerProcess
from ....profiles import DeviceProfile
from ....torch_releases import Version

#: Counts changes of the questions, and of the runtime that cuDNN sees, after which answers differ.
_FORMAT: Final = 1
#: Variables of the environment that change cuDNN's plans begin so.
_READ_BY_CUDNN: Final = ("CUDNN_", "NVIDIA_TF32")
#: Variables that change which question PyTorch asks (Conv_v8.cpp).
_READ_BY_PYTORCH: Final = (
    *("TORCH_CUDNN_V8_API_DISABLED", "TORCH_CUDNN_USE_HEURISTIC_MODE_B"),
    "CUDNN_ERRATA_JSON_FILE",
)
_WHO: Final = "cuDNN plans this convolution"


class CudnnPlans:
    """The plans for one device, by the cuDNN that a release of PyTorch comes with."""

    def __init__(
        self,
        profile: DeviceProfile,
        version: Version,
        environ: Mapping[str, str],
        cudnn: str = "",
    ) -> None:
        self._profile = profile
        self._version = version
        self._cudnn = cudnn or cudnn_of(version)
        self._environ = environ
        self._file: PlanFile | None = None
        self._answers: dict[str, int] = {}
        self._lock = Lock()  # a program may have threads
        self._process: PlannerProcess | None = None
        self._missing = ""

    def workspace(self, question: str) -> int | str:
        """Returns the bytes of the planned workspace, or in one line why they are unknown."""
        if not self._cudnn:
            named = ".".join(map(str, self._version))
            return f"{_WHO}, and nobody knows which cuDNN torch {named} has"
        for name in _READ_BY_PYTORCH:
            if self._environ.get(name):
                return f"{_WHO}, and {name} changes its plans: unset it"
        with self._lock:
            if self._file is None:
                self._file = PlanFile(plans_path(self._profile, self._cudnn, self._environ))
                self._answers = self._file.read()
            if question not in self._answers:
                try:
                    found = self._planner().ask(question)
                except BackendUnavailable as error:
                    return f"{_WHO}: {error}"
                self._answers[question] = found
                self._file.append(question, found)
            return self._answers[question]

    def _planner(self) -> PlannerProcess:
        """Returns the process that plans, which starts at the first question of a session.

        Raises:
            BackendUnavailable: it cannot start here; or it is another cuDNN than PyTorch's.
        """
        if self._missing:
            raise BackendUnavailable(self._missing)
        if self._process is None:
            try:
                process = PlannerProcess(self._profile)
                if process.version != self._cudnn:
                    process.close()
                    raise BackendUnavailable(
                        f"torch {self._version[0]}.{self._version[1]} comes with cuDNN"
                        f" {self._cudnn}, and {process.version} is installed:"
                        f' pip install "nvidia-cudnn-cu13=={self._cudnn}.*"'
                    )
            except BackendUnavailable as error:
                self._missing = str(error)
                raise
            self._process = process
        return self._process


def plans_path(profile: DeviceProfile, cudnn: str, environ: Mapping[str, str]) -> Path:
    """Returns the file of answers; its name changes with all that they depend on."""
    facts = [f"{_FORMAT}"]
    for name, value in sorted(variables(Path(), profile, 1, {}).items()):
        if name.startswith("ATTNMEM_NULL_") and not name.endswith(("_PLANS", "_PROFILE", "_NAME")):
            facts.append(f"{name}={value}")
    for name, value in sorted(environ.items()):
        if name.startswith(_READ_BY_CUDNN):
            facts.append(f"{name}={value}")
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    device = profile.name.replace(" ", "-")
    return user_cache() / "cudnn" / f"{cudnn}-{device}-{digest}.txt"
