import ctypes
import shutil
import subprocess
import sys

import pytest

from pytest_attnmem.nulldevice import elf
from pytest_attnmem.nulldevice.elf import Function, Variable, is_written, write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ELF files are Linux's")

FUNCTIONS = (
    Function("cudnnGetVersion", 92000),
    Function("cudnnCreate", 801, counted=True, version="libcudnn.so.9"),
    Function("cudnnGetErrorString", text="libcudnn.so.9 is not installed"),
    Function("negative", -2),
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "libcudnn.so.9"
    path.write_bytes(write(path.name, FUNCTIONS, [Variable("table", "other")], ["more"]))
    return path


def test_the_loader_finds_functions_that_return_their_number_or_text(path):
    library = ctypes.CDLL(str(path))
    library.cudnnGetErrorString.restype = ctypes.c_char_p
    assert library.cudnnGetVersion() == 92000
    assert library.cudnnGetErrorString(7) == b"libcudnn.so.9 is not installed"
    assert library.negative() == -2
    assert bytes((ctypes.c_char * Variable.SIZE).in_dll(library, "table")) == bytes(4096)


def test_a_counted_function_gives_its_name_and_its_number_to_the_counter(path, tmp_path):
    counter = tmp_path / "libcounter.so"
    source = tmp_path / "counter.c"
    source.write_text(
        "#include <string.h>\n"
        "long attnmem_null_stub(const char *name, long result)"
        ' { return strcmp(name, "cudnnCreate") ? -1 : result; }'
    )
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", counter, source], check=True)
    script = f"import ctypes; print(ctypes.CDLL({str(path)!r}).cudnnCreate(None))"
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, check=True, env={"LD_PRELOAD": str(counter)},
    )  # fmt: skip
    assert run.stdout == "801\n"


def test_what_was_written_is_read_back_by_the_system(path):
    """A program that asks for a version runs only if the library has it."""
    assert is_written(str(path))
    assert not is_written(elf.__file__)
    image = path.read_bytes()
    assert all(f"{name}\0".encode() in image for name in ("libcudnn.so.9", "other", "more"))


def test_many_functions_are_each_found_whatever_their_order(tmp_path):
    path = tmp_path / "libmany.so"
    functions = [Function(f"f{i}", i) for i in range(3000)]
    path.write_bytes(write(path.name, functions))
    assert path.read_bytes() == write(path.name, reversed(functions))
    library = ctypes.CDLL(str(path))
    assert [getattr(library, f"f{i}")() for i in range(3000)] == list(range(3000))


def test_a_name_of_the_library_that_is_needed_is_found(path, tmp_path):
    other = tmp_path / "libother.so.1"
    other.write_bytes(write(other.name, (), needed=path.name))
    script = (
        "import ctypes\n"
        f"ctypes.CDLL({str(path)!r}), ctypes.CDLL({str(other)!r})\n"
        f"print(ctypes.CDLL({other.name!r}).cudnnGetVersion())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "92000\n", done.stderr
