"""Whether PyTorch's wheels for macOS and Windows have what `simulated` takes of its libraries.

`make platforms`, or with `VERSIONS="2.13.0 2.15.0"`, fetches the wheels, and reads the names of
their functions and the tables of those of the hooks. Nothing of them runs: no other system is
needed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import lief

from pytest_attnmem.backends.simulated.pytorch_device.accelerator import ABIS, ANSWERS
from pytest_attnmem.torch_releases import KNOWN

WHEELS = {"darwin": "macosx_14_0_arm64", "win32": "win_amd64"}
DEVICES = ("CUDA", "XPU", "MPS")
#: A word, and the table of functions of CUDA's hooks with what stands before its first function.
WORD = 8
TABLES = {
    "darwin": ("__ZTVN2at18CUDAHooksInterfaceE", 2),
    "win32": ("??_7CUDAHooksInterface@at@@6B@", 0),
}

#: The names of functions by their address, and the address at each address of a table.
Read = tuple[Mapping[int, list[str]], Mapping[str, int], Mapping[int, int]]


def read_macos(path: Path, table: str, length: int) -> Read:
    """Returns the functions of a library, and the words of a table."""
    fat = lief.MachO.parse(str(path))
    library = fat.at(0)
    names, places = defaultdict(list), {}
    for symbol in library.symbols:
        if symbol.value:
            names[symbol.value].append(symbol.name)
            places[symbol.name] = symbol.value
    start = places.get(table, 0)
    words = range(start, start + WORD * length, WORD)
    moved = {one.address: one.target for one in library.relocations if one.address in words}
    return names, places, moved


def read_windows(path: Path, table: str, length: int) -> Read:
    """Returns the functions of a library, and the words of a table."""
    library = lief.PE.parse(str(path))
    base = library.optional_header.imagebase
    names, places = defaultdict(list), {}
    for entry in library.get_export().entries:
        names[base + entry.address].append(entry.name)
        places[entry.name] = base + entry.address
    start, words = places.get(table, 0), {}
    for at in range(start, start + WORD * length, WORD) if start else ():
        word = bytes(library.get_content_from_virtual_address(at, WORD))
        words[at] = int.from_bytes(word, "little")
    return names, places, words


def problems(platform: str, folder: Path) -> list[str]:
    """Returns what the libraries in a folder lack, or have in another place."""
    abi, read = ABIS[platform], read_macos if platform == "darwin" else read_windows
    table, before = TABLES[platform]
    before += abi.destructors
    prefix = "_" if platform == "darwin" else ""
    length = before + len(ANSWERS)
    wanted = {
        "c10": [abi.registry, abi.cpu_allocator],
        "torch_cpu": [abi.name_of_hooks(device) for device in DEVICES],
    }
    found = []
    for library, functions in wanted.items():
        names, places, words = read(folder / abi.library.format(library), table, length)
        found += [f"{library}: no {name}" for name in functions if prefix + name not in places]
    for place, (name, _) in enumerate(ANSWERS, before):
        there = names.get(words.get(places.get(table, 0) + WORD * place, 0), [])
        if not any(name in one for one in there):
            found.append(f"place {place}: {there[:3]}, not {name}")
    return found


def main(versions: list[str]) -> int:
    """Prints a line for each wheel; returns 1 if one is not as it should be."""
    failed = 0
    for version in versions or [f"{major}.{minor}.0" for major, minor in KNOWN]:
        for platform, tag in WHEELS.items():
            with tempfile.TemporaryDirectory() as folder:
                fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
                fetch += ["--only-binary=:all:", "--platform", tag, "--python-version", "3.11"]
                subprocess.run([*fetch, "-d", folder, f"torch=={version}"], check=True)
                [wheel] = Path(folder).glob("*.whl")
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(folder, [n for n in archive.namelist() if "/lib/" in n])
                lacking = problems(platform, Path(folder) / "torch" / "lib")
            print(version, platform, "; ".join(lacking) or f"has all, {len(ANSWERS)} in place")
            failed |= bool(lacking)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
