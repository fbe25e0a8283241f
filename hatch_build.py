"""What the build adds: a README for the package index, and the compiled runtime of the null device.

``ATTNMEM_RUNTIME=1 python -m build --wheel`` makes the wheel for Linux on x86-64, which has a
runtime for each major version of CUDA, so that nobody needs a compiler. Without the variable the
wheel is pure, and serves every other system.
"""

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"\]\((?!https?:|#)")
_PICTURE = re.compile(r"(!\[[^]]*\]\()(?!https?:)")
#: The oldest glibc: that of manylinux2014.
_GLIBC = (2, 17)
_HEADERS = {12: "nvidia-cuda-runtime-cu12==12.9.*", 13: "nvidia-cuda-runtime==13.2.*"}


class Readme(MetadataHookInterface):
    """Makes the README's links to files absolute, which would lead nowhere."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets the readme of the project."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        source, version = metadata["urls"]["Source"], f"v{metadata['version']}"
        text = _PICTURE.sub(rf"\g<1>{source}/raw/{version}/", text)
        text = _LINK.sub(f"]({source}/blob/{version}/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class Runtime(BuildHookInterface):
    """Compiles the runtime of the null device by zig, for the glibc of manylinux2014."""

    def dependencies(self) -> list[str]:
        """Returns the compiler and CUDA's headers, where they are needed."""
        return ["ziglang", *_HEADERS.values()] if _wanted(self.target_name) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds a library for each major version of CUDA."""
        if not _wanted(self.target_name) or version == "editable":
            return
        sys.path.insert(0, self.root)
        from pytest_attnmem.nulldevice import build, torch_build

        glibc = ".".join(map(str, _GLIBC))
        zig = f"-m ziglang cc -target x86_64-linux-gnu.{glibc}"
        compiler = (sys.executable, *shlex.split(zig))
        self._scratch = tempfile.TemporaryDirectory()
        for major in _HEADERS:
            headers = torch_build.find_headers(torch_build.packages(), major)
            library = Path(self._scratch.name) / f"cuda{major}.so"
            build.compile_runtime(headers, compiler, library)
            build_data["force_include"][str(library)] = (
                f"pytest_attnmem/nulldevice/built/{library.name}"
            )
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{_GLIBC[0]}_{_GLIBC[1]}_x86_64"


def _wanted(target: str) -> bool:
    return target == "wheel" and os.environ.get("ATTNMEM_RUNTIME") == "1"
