"""Compiles the runtime into the user's cache, once for each torch and compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import BackendUnavailable
from . import elf, stubs, torch_build
from .torch_build import TorchBuild
from .trusted_folder import check_trusted, make_trusted

#: Programs open the driver and NVML by these file names.
LIBRARY = "libcuda.so.1"
MANAGEMENT = "libnvidia-ml.so.1"

_SOURCE = Path(__file__).parent / "source"
_FLAGS = ("-std=gnu11", "-O1", "-fPIC", "-fvisibility=hidden", "-Wno-deprecated-declarations")
_LINK = ("-shared", f"-Wl,-soname,{LIBRARY}")
_LINKED = ("-lpthread", "-ldl")


def build(beside_gpu: bool = False) -> Path:
    """Returns the folder of the compiled runtime for the torch that this Python imports.

    Raises:
        BackendUnavailable: it cannot be built or used here; the message says why in one line.
    """
    refuse_elsewhere(beside_gpu)
    return _built(torch_build.find())


def build_alone(headers: Path) -> Path:
    """Returns the folder of a compiled runtime for no torch: cuDNN's planner needs no more.

    ``headers`` is the folder of CUDA's headers.

    Raises:
        BackendUnavailable: it cannot be built here; the message says why in one line.
    """
    return _built(TorchBuild("", "", (), (), headers))


def _built(torch: TorchBuild) -> Path:
    compiler = find_compiler()
    cache = cache_folder()
    folder = cache / key(torch, version_of(compiler))
    if not (folder / LIBRARY).is_file():
        _build_into(folder, torch, compiler)
    for path in (cache.parent, cache, folder, folder / LIBRARY):
        check_trusted(path)
    return folder


def refuse_elsewhere(beside_gpu: bool = False) -> None:
    """Raises BackendUnavailable if this is not Linux, or has a real driver.

    A process that is started for a comparison may run ``beside_gpu``: its preloaded library has
    the file name of the driver's, so the driver is not loaded. Tests that ask for the null device
    on such a machine are more likely a mistake.
    """
    if sys.platform != "linux":
        raise BackendUnavailable(f"the null device needs Linux, and this is {sys.platform}")
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


def version_of(compiler: tuple[str, ...]) -> str:
    """Returns the output of the compiler's ``--version``."""
    return _run((*compiler, "--version"))


def cache_folder() -> Path:
    """Returns ``$XDG_CACHE_HOME/attnmem/nulldevice``; ``~/.cache`` if the variable is not set."""
    folder = user_cache() / "nulldevice"
    if set(str(folder)) & set(" :;"):  # LD_PRELOAD and LD_LIBRARY_PATH are split at these
        raise BackendUnavailable(
            f"the null device needs a cache folder without spaces and colons, not {folder}:"
            " set XDG_CACHE_HOME"
        )
    return folder


def user_cache() -> Path:
    """Returns ``$XDG_CACHE_HOME/attnmem``; ``~/.cache/attnmem`` if the variable is not set."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(root) if os.path.isabs(root) else Path("~/.cache").expanduser()
    return base / "attnmem"


def key(torch: TorchBuild, compiler: str) -> str:
    """Returns a short name that changes with everything the compiled runtime depends on."""
    digest = hashlib.sha256()
    about = (torch.version, torch.cuda, _header_version(torch), compiler, platform.machine())
    files = [path.read_bytes() for path in _sources()]
    ours = [
        Path(module.__file__ or "").read_bytes() for module in (stubs, elf, sys.modules[__name__])
    ]
    for part in (*(text.encode() for text in about), *files, *ours):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:20]


def _sources() -> list[Path]:
    return sorted(path for path in _SOURCE.rglob("*") if path.suffix in (".c", ".h"))


def _header_version(torch: TorchBuild) -> str:
    text = (torch.headers / "cuda.h").read_text(encoding="utf-8", errors="replace")
    return next((line for line in text.splitlines() if "define CUDA_VERSION" in line), "")


def _build_into(folder: Path, torch: TorchBuild, compiler: tuple[str, ...]) -> None:
    """Builds beside the folder, then renames: a process that comes second uses the first build."""
    try:
        make_trusted(folder.parent)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as scratch:
            product = Path(scratch) / "product"
            product.mkdir()
            _compile(Path(scratch), product, torch, compiler)
            try:
                product.rename(folder)
            except OSError:
                if not (folder / LIBRARY).is_file():
                    raise
    except OSError as error:
        raise BackendUnavailable(f"the null device cannot write its cache: {error}") from None


def _compile(scratch: Path, product: Path, torch: TorchBuild, compiler: tuple[str, ...]) -> None:
    include = (f"-I{_SOURCE / 'shim'}", f"-I{_SOURCE}", f"-I{torch.headers}")
    written = [str(path) for path in _sources() if path.suffix == ".c"]
    library = product / LIBRARY
    command = (*compiler, *_FLAGS, *_LINK, *include, "-o", str(library))
    # Link without stubs first: the functions that this library defines need no stub.
    _run((*command, *written, *_LINKED))
    header = (torch.headers / "cuda.h").read_text(encoding="utf-8", errors="replace")
    wanted = stubs.wanted(
        stubs.read_undefined(map(str, torch.libraries)),
        stubs.read_defined(map(str, torch.runtime)),
        header,
    )
    generated = scratch / "stubs.c"
    generated.write_text(stubs.source(wanted - elf.defined(library)), encoding="utf-8")
    _run((*command, *written, str(generated), *_LINKED))
    (product / MANAGEMENT).symlink_to(LIBRARY)
    product.chmod(0o700)
    library.chmod(0o700)  # whatever the umask is: others may not write what is preloaded


def _run(command: tuple[str, ...]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in lines if "error" in line]
        reason = (errors or lines or [f"its exit code is {done.returncode}"])[0]
        raise BackendUnavailable(f"the null device cannot be compiled by {command[0]}: {reason}")
    return done.stdout
