"""Installs the CUDA build of torch for the null device, beside an environment with a CPU build.

The user's own uv or pip fetches it, with the user's settings. What is not whole lies in a folder of
another name, and a second try goes on with it.

The disk space of the GPU's machine code, which null never runs, is given back. A library's section
``.nv_fatbin`` has containers of images, one for each architecture. The null runtime reads their
headers, which say for what a kernel was compiled; only the code becomes holes.
"""

from __future__ import annotations

import csv
import ctypes
import importlib.util
import mmap
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ..errors import BackendUnavailable
from ..profiles import DEFAULT_PROFILE, find_profile
from ..units import format_size
from . import build, elf, kept_build, launch, parts, torch_build
from .torch_build import TorchBuild, Version

#: The largest wheel, its files, and those in the cache of the installer: torch 2.9.1, with room.
NEEDED_BYTES: Final = 4 << 30
#: A part's largest download and its files.
_PART_BYTES: Final = 3 << 30

#: Says what goes on.
Show = Callable[[str], None]


class Installer:
    """The user's own uv or pip, with options such as ``--index-url URL``."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        """Finds the installer.

        Raises:
            BackendUnavailable: there is neither.
        """
        # A project's settings for uv, such as torch-backend = "cpu", would overrule a named source.
        self._folder = "/" if options else None
        uv = os.environ.get("UV") or shutil.which("uv")
        if uv:
            # Copied, because the files are changed, and uv's cache must not be. Of all sources, as
            # pip: the first that has a torch is often an index of CPU builds, which has no other.
            how = ("--link-mode", "copy", "--index-strategy", "unsafe-best-match")
            self._command = [uv, "pip", "install", *how, "--python", sys.executable, *options]
        elif importlib.util.find_spec("pip"):
            self._command = [sys.executable, "-m", "pip", "install", *options]
        else:
            raise BackendUnavailable(
                "attnmem install needs uv or pip, and this environment has neither: pip install uv"
            )

    def command(self, wanted: Sequence[str], target: Path | None, *more: str) -> list[str]:
        """Returns the command that installs packages, into the environment or into a folder."""
        into = ["--target", str(target)] if target else []
        return [*self._command, *more, *into, *wanted]

    def install(self, wanted: Sequence[str], target: Path | None, *more: str) -> None:
        """Installs packages; the installer prints its progress.

        Raises:
            BackendUnavailable: it fails.
        """
        # A choice of the CPU build would hide the one that is wanted.
        env = {name: value for name, value in os.environ.items() if name != "UV_TORCH_BACKEND"}
        command = self.command(wanted, target, *more)
        ended = subprocess.run(
            command, cwd=self._folder, env=env, stdout=sys.stderr, check=False
        ).returncode
        if ended:
            raise BackendUnavailable(
                f"{Path(command[0]).name} ended with {ended} and installed no {wanted[0]}: see its"
                " lines above; --index-url or --wheels name another source"
            )


def wanted(version: Version) -> list[str]:
    """Returns the requirement for the CUDA build of a torch: not the CPU's, which it equals."""
    return [f"torch=={version.release},!={version.release}+cpu"]


def keep(version: Version, installer: Installer, show: Show) -> Path:
    """Installs the CUDA build for a CPU build of torch; returns its folder.

    Raises:
        BackendUnavailable: it cannot be had, or is not the same torch.
    """
    kept = kept_build.folder(version.release)
    part = _part(kept)
    with _alone(kept):
        if not _is_complete(part):
            check_space(kept.parent, NEEDED_BYTES)
            shutil.rmtree(part, ignore_errors=True)
            show(f"fetching the CUDA build of torch {version.release}")
            installer.install(wanted(version), part, "--no-deps")
        found = torch_build.read_version(part / "torch")
        if not found.cuda or found.commit != version.commit:
            shutil.rmtree(part)
            what = "another commit" if found.cuda else "a build without CUDA"
            raise BackendUnavailable(
                f"the torch {found.name} that was found for torch {version.name} is {what}: name"
                " another source with --index-url or --wheels"
            )
        saved = 0
        for library in sorted((part / "torch" / "lib").glob("lib*.so")):
            with suppress(OSError):  # a file system without holes; the build works as it is
                saved += give_back(library)
        show(f"gave back {format_size(saved)} of the GPU's machine code, which null does not run")
        shutil.rmtree(kept, ignore_errors=True)
        part.rename(kept)
    return kept


def add(torch: TorchBuild, part: str, installer: Installer, show: Show) -> None:
    """Installs a part, such as cuDNN, where this torch finds it.

    Raises:
        BackendUnavailable: it cannot be had.
    """
    if part == "cudnn" and (why := parts.unplannable(torch)):
        raise BackendUnavailable(why)
    packages = parts.requirements(torch, part)
    if not packages:
        raise BackendUnavailable(f"torch {torch.version} names no package for {part}")
    _add(torch, packages, installer, show)


def add_headers(torch: TorchBuild, installer: Installer, show: Show) -> None:
    """Installs CUDA's headers where the runtime must be compiled and there are none.

    Raises:
        BackendUnavailable: they cannot be had.
    """
    if build.lacks_headers(torch):
        _add(torch, [parts.headers(torch.major)], installer, show)


def _add(torch: TorchBuild, packages: list[str], installer: Installer, show: Show) -> None:
    show(f"fetching {' '.join(packages)}")
    if torch.front is None:
        installer.install(packages, None)
        return
    with _alone(torch.front):
        check_space(torch.front.parent, _PART_BYTES)
        folder = _part(torch.front)
        shutil.rmtree(folder, ignore_errors=True)
        installer.install(packages, folder)
        shutil.copytree(folder, torch.front, dirs_exist_ok=True, copy_function=os.replace)
        shutil.rmtree(folder)


def start_once() -> None:
    """Starts the null device, which makes its runtime, its stubs and torch's bytecode.

    Raises:
        BackendUnavailable: it does not start.
    """
    env = {**os.environ, **launch.environment(find_profile(DEFAULT_PROFILE))}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    script = "import torch; torch.zeros(1, device='cuda')"
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise BackendUnavailable(f"torch does not start on the null device: {last}")


def remove(kept: Path) -> int:
    """Removes a kept build; returns its bytes on disk."""
    freed = 0
    for folder in (kept, _part(kept)):
        freed += sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
        shutil.rmtree(folder, ignore_errors=True)
    return freed


def check_space(folder: Path, needed: int) -> None:
    """Checks the free space of the disk.

    Raises:
        BackendUnavailable: it has less than is needed.
    """
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BackendUnavailable(
            f"{folder} has {format_size(free)} of free space, and the installation needs"
            f" {format_size(needed)}: set XDG_CACHE_HOME to a folder on another disk"
        )


def _part(kept: Path) -> Path:
    return kept.with_name(kept.name + ".part")


@contextmanager
def _alone(kept: Path) -> Iterator[None]:
    """Keeps other installations of the same build out.

    Raises:
        BackendUnavailable: one is going on.
    """
    import fcntl  # the command is listed on Windows too, which has none

    kept.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    with open(kept.with_name(kept.name + ".lock"), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BackendUnavailable(f"another process installs {kept.name}; wait for it") from None
        yield


def _is_complete(part: Path) -> bool:
    """Returns True if every file of torch's record is there with its size."""
    for record in part.glob("torch-*.dist-info/RECORD"):
        with open(record, encoding="utf-8", newline="") as lines:
            sized = [(part / name, int(size)) for name, _, size in csv.reader(lines) if size]
        return all(path.is_file() and path.stat().st_size == size for path, size in sized)
    return False


_PAGE: Final = 4096
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of the images
_IMAGE = struct.Struct("<HHIQ")  # kind, version, size of this header, size of the code
_MAGIC: Final = 0xBA55ED50


def give_back(library: Path) -> int:
    """Makes holes of the GPU's code in a library; returns their bytes.

    The library must share its file with no other, as by a hard link.

    Raises:
        OSError: the file system makes no holes.
    """
    begin, size = elf.section(library, ".nv_fatbin")
    if not size:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    saved = 0
    with open(library, "r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            holes = list(_code(image, begin, begin + size))
        for start, end in holes:
            how = (ctypes.c_int(file.fileno()), ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE))
            if libc.fallocate64(*how, ctypes.c_int64(start), ctypes.c_int64(end - start)):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(library))
            saved += end - start
    return saved


def _code(image: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields where the whole pages of code begin and end."""
    while at + _CONTAINER.size <= end:
        magic, _, header, size = _CONTAINER.unpack_from(image, at)
        if magic != _MAGIC:
            at += 8  # containers are aligned
            continue
        last = at + header + size
        at += header
        while at + _IMAGE.size <= last:
            _, _, header, size = _IMAGE.unpack_from(image, at)
            start, stop = -(-(at + header) // _PAGE) * _PAGE, (at + header + size) // _PAGE * _PAGE
            if start < stop:
                yield start, stop
            at += header + size
        at = last
