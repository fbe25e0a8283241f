"""Makes the folder of the null device in the user's cache, once for each torch: runtime and stubs.

The runtime comes compiled with the wheel for Linux; a checkout compiles it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import BackendUnavailable
from ..units import shown
from . import elf, parts, stubs, torch_build
from .kept_build import user_cache
from .torch_build import TorchBuild

#: Programs open the driver and NVML by these file names.
LIBRARY = "libcuda.so.1"
MANAGEMENT = "libnvidia-ml.so.1"
#: Triton before 3.6 links with -lcuda.
_OTHER_NAMES = (MANAGEMENT, "libcuda.so")
#: The folder of a library for each other name. One that is loaded by its path is found by the name
#: that is written in it, and a link has that of its target.
NAMES = "names"

_SOURCE = Path(__file__).parent / "source"
_FLAGS = (
    "-std=gnu11",
    "-O1",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wno-deprecated-declarations",
    "-fno-sanitize=undefined",  # which zig's compiler would add
)
_LINK = ("-shared", f"-Wl,-soname,{LIBRARY}")
_LINKED = ("-lpthread", "-ldl")


def build(beside_gpu: bool = False) -> Path:
    """Returns the folder with the runtime and the stubs for the torch of the null device.

    Raises:
        BackendUnavailable: it cannot be made or used here; the message says why in one line.
    """
    refuse_elsewhere(beside_gpu)
    torch = torch_build.find()
    return _kept(_key(torch), torch.major, torch.packages, torch)


def build_alone(major: int, packages: Sequence[Path]) -> Path:
    """Returns the folder with the runtime for no torch: cuDNN's planner needs no more.

    ``major`` is CUDA's version; ``packages`` are folders named ``nvidia`` that have its headers.

    Raises:
        BackendUnavailable: it cannot be made here; the message says why in one line.
    """
    return _kept(_key(None), major, packages, None)


def _kept(key: str, major: int, packages: Sequence[Path], torch: TorchBuild | None) -> Path:
    cache = cache_folder()
    runtime = _built(major)
    if not runtime.is_file():
        runtime = _compiled(cache, major, packages)
    folder = cache / f"{_digest(runtime)}-{key}"
    if not (folder / LIBRARY).is_file():
        _make(folder, lambda product: _fill(product, runtime, torch))
    for path in (cache.parent, cache, folder, *folder.rglob("*")):
        check_trusted(path)
    return folder


def check() -> None:
    """Checks that the null device can be made here, without making it.

    Raises:
        BackendUnavailable: it cannot; the message says why in one line.
    """
    refuse_elsewhere()
    torch = torch_build.find()
    cache_folder()
    if not _built(torch.major).is_file():
        _headers_and_compiler(torch.major, torch.packages)


def lacks_headers(torch: TorchBuild) -> bool:
    """Returns True if the runtime must be compiled for this torch, and CUDA's headers lack."""
    built = _built(torch.major).is_file()
    return not built and torch_build.find_headers(torch.packages, torch.major) is None


def _built(major: int) -> Path:
    """Returns the runtime that the wheel for Linux has; a checkout and the pure wheel have none."""
    return Path(__file__).parent / "built" / f"cuda{major}.so"


def refuse_elsewhere(beside_gpu: bool = False) -> None:
    """Raises BackendUnavailable if this is not Linux, or has a real driver.

    A process that is started for a comparison may run ``beside_gpu``: its preloaded library has
    the file name of the driver's, so the driver is not loaded. Tests that ask for the null device
    on such a machine are more likely a mistake.
    """
    if sys.platform != "linux":
        raise BackendUnavailable(
            f"the null device needs Linux, and this is {sys.platform}; use simulated"
        )
    if platform.machine() != "x86_64":
        raise BackendUnavailable(
            f"the null device needs x86-64, and this is {platform.machine()}; use simulated"
        )
    if beside_gpu:
        return
    if os.path.exists("/dev/nvidiactl"):
        raise BackendUnavailable("the null device cannot run beside a GPU: found /dev/nvidiactl")
    try:
        driver = ctypes.CDLL(LIBRARY)
    except OSError:
        return
    if not hasattr(driver, "attnmem_null_unknown"):
        raise BackendUnavailable(
            f"the null device cannot run beside a real driver: found {LIBRARY}"
        )


def find_compiler() -> tuple[str, ...]:
    """Returns the command of a C compiler: ``$CC``, or the first of cc, gcc and clang."""
    wanted = os.environ.get("CC", "")
    for command in [wanted] if wanted.strip() else ["cc", "gcc", "clang"]:
        name, *options = shlex.split(command)
        if path := shutil.which(name):
            return (path, *options)
    tried = f"found no CC={wanted}" if wanted.strip() else "found none of cc, gcc and clang"
    raise BackendUnavailable(f"the null device needs a C compiler: {tried}")


def cache_folder() -> Path:
    """Returns the folder ``nulldevice`` in the user's cache."""
    folder = user_cache() / "nulldevice"
    if set(str(folder)) & set(" :;"):  # LD_PRELOAD and LD_LIBRARY_PATH are split at these
        raise BackendUnavailable(
            f"the null device needs a cache folder without spaces and colons, not {folder}:"
            " set XDG_CACHE_HOME"
        )
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    if sys.platform == "linux" and os.statvfs(there).f_flag & os.ST_NOEXEC:
        raise BackendUnavailable(
            f"the null device needs a cache folder that libraries can be loaded from, and {there}"
            " is mounted noexec, as docker's --tmpfs is: set XDG_CACHE_HOME"
        )
    return folder


def _key(torch: TorchBuild | None) -> str:
    """Returns a short name that changes with everything that the stubs depend on."""
    about = [torch.version, torch.cuda, str(torch.folder)] if torch else []
    # Libraries that are installed later need no stub any more.
    installed = [
        str(path) for root in (torch.packages if torch else ()) for path in root.glob("*/lib/*.so*")
    ]
    ours = [Path(module.__file__ or "") for module in (elf, stubs)]
    return _digest(*ours, *about, *sorted(installed))


def _digest(*parts: Path | str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]


def _fill(product: Path, runtime: Path, torch: TorchBuild | None) -> None:
    library = product / LIBRARY
    shutil.copyfile(runtime, library)
    (product / NAMES).mkdir()
    for name in _OTHER_NAMES:
        (product / name).symlink_to(LIBRARY)
    imported = [name for path in torch.libraries for name in elf.undefined(path)] if torch else []
    exported = [name for path in torch.runtime for name in elf.defined(path)] if torch else []
    written = {stubs.CALLS: stubs.of_calls(imported, exported, elf.defined(runtime))}
    if torch:
        ours = {LIBRARY, *_OTHER_NAMES}
        written.update(stubs.of_missing(torch.folder, ours, torch.cudnn))
    written |= {f"{NAMES}/{name}": elf.write(name, (), needed=LIBRARY) for name in _OTHER_NAMES}
    for name, image in written.items():
        (product / name).write_bytes(image)


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fills another folder, then renames it: a process that comes second uses the first's."""
    try:
        make_trusted(folder.parent)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as scratch:
            product = Path(scratch) / "product"
            product.mkdir()
            fill(product)
            # Whatever the umask is: others may read, and not write, what is preloaded. An image of
            # a container is often made by root and run by another user.
            for path in (product, *product.rglob("*")):
                if not path.is_symlink():
                    path.chmod(0o755)
            try:
                product.rename(folder)
            except OSError:
                if not (folder / LIBRARY).is_file():
                    raise
    except OSError as error:
        raise BackendUnavailable(
            f"the null device cannot write its cache: {error}; set XDG_CACHE_HOME to a folder of"
            " your own"
        ) from None


def _compiled(cache: Path, major: int, packages: Sequence[Path]) -> Path:
    """Returns the runtime, compiled from its source; only a checkout has to."""
    headers, compiler = _headers_and_compiler(major, packages)
    version = _run((*compiler, "--version"))
    about = (version, (headers / "cuda.h").read_text("utf-8", errors="replace"))
    ours = (Path(__file__), Path(stubs.__file__))
    folder = cache / f"compiled-{_digest(*_sources(), *ours, *about)}"
    if not (folder / LIBRARY).is_file():
        _make(folder, lambda product: compile_runtime(headers, compiler, product / LIBRARY))
    return folder / LIBRARY


def _headers_and_compiler(major: int, packages: Sequence[Path]) -> tuple[Path, tuple[str, ...]]:
    headers = torch_build.find_headers(packages, major)
    if headers is None:
        raise BackendUnavailable(
            "this copy of pytest-attnmem has no compiled runtime for the null device; to compile"
            f" one needs CUDA's headers: pip install {parts.headers(major)}"
        )
    return headers, find_compiler()


def compile_runtime(headers: Path, compiler: tuple[str, ...], library: Path) -> None:
    """Compiles the runtime for the CUDA of these headers into a file.

    Raises:
        BackendUnavailable: the compiler fails.
    """
    include = (f"-I{_SOURCE / 'shim'}", f"-I{_SOURCE}", f"-I{headers}")
    written = [str(path) for path in _sources() if path.suffix == ".c"]
    command = (*compiler, *_FLAGS, *_LINK, *include, "-o", str(library))
    # Link without stubs first: the functions that this library defines need no stub.
    _run((*command, *written, *_LINKED))
    declared = stubs.declared((headers / "cuda.h").read_text("utf-8", errors="replace"))
    with tempfile.TemporaryDirectory() as scratch:
        generated = Path(scratch) / "stubs.c"
        generated.write_text(stubs.source(declared - elf.defined(library)), encoding="utf-8")
        _run((*command, *written, str(generated), *_LINKED))


def _sources() -> list[Path]:
    return sorted(path for path in _SOURCE.rglob("*") if path.suffix in (".c", ".h"))


def _run(command: tuple[str, ...]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in lines if "error" in line]
        reason = (errors or lines or [f"its exit code is {done.returncode}"])[0]
        raise BackendUnavailable(f"the null device cannot be compiled by {command[0]}: {reason}")
    return done.stdout


def check_trusted(path: Path) -> None:
    """Checks that the file or folder, and a link to it, belong to this user or to root.

    Raises:
        BackendUnavailable: they belong to another user, or others may write to them.
    """
    for found in (path.lstat(), path.stat()):
        if found.st_uid not in (os.geteuid(), 0):
            raise _refused(path, f"belongs to user {found.st_uid}")
        writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if writable and not stat.S_ISLNK(found.st_mode):
            raise _refused(path, "can be written by others", f"chmod -R go-w {path}, or ")


def _refused(path: Path, why: str, remedy: str = "") -> BackendUnavailable:
    return BackendUnavailable(
        f"the null device loads no library from {shown(str(path), 300)}, which {why}:"
        f" {remedy}set XDG_CACHE_HOME to a folder of your own"
    )


def make_trusted(folder: Path) -> None:
    """Makes the folder and the one above it, which other users may not write to.

    Raises:
        OSError: they cannot be made.
    """
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for one in (folder.parent, folder):
        if not one.is_dir():
            one.mkdir(exist_ok=True)
            one.chmod(0o755)
