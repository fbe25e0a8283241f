"""The functions of CUDA's libraries that the runtime defines, against the libraries' headers."""

import re
import subprocess
from pathlib import Path

import pytest

from pytest_attnmem import nulldevice
from pytest_attnmem.nulldevice.build import find_compiler
from pytest_attnmem.nulldevice.torch_build import find, find_headers

SOURCE = Path(str(nulldevice.__file__)).parent / "source"
#: A function that is defined or declared: its name and its parameters.
FUNCTION = re.compile(r"\b(cu(?:blas|fft|solver|sparse)\w+)\s*\(([^()]*)\)\s*[{;]")
NUMBERS_OF_64_BITS = re.compile(r"int64_t|size_t|long")
POINTERS = re.compile(r"\*|\[|cu(solverDn|blas)(Handle|Params)_t|Info_t")


def headers():
    torch = find()
    return find_headers(torch.packages, torch.major)


def expanded(source):
    """Returns the code of one of our sources without macros."""
    folders = (SOURCE, SOURCE / "shim", headers())
    command = (*find_compiler(), "-E", "-P", *[f"-I{folder}" for folder in folders])
    done = subprocess.run((*command, SOURCE / source), capture_output=True, text=True, check=True)
    return done.stdout


def kinds(parameters):
    """Returns what each parameter is: a pointer, or a number of so many bits."""
    return [
        "pointer"
        if POINTERS.search(parameter)
        else 64
        if NUMBERS_OF_64_BITS.search(parameter)
        else 32
        for parameter in parameters.split(",")
    ]


def functions(code):
    """Returns the parameters of each function; a later mention of its name is a call."""
    found = reversed(FUNCTION.findall(code))
    return {name: kinds(parameters) for name, parameters in found if parameters.strip() != "void"}


def without_comments(header):
    return re.sub(r"/\*.*?\*/", "", header.read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize(
    ("source", "header", "least"),
    [
        ("solver.c", "cusolverDn.h", 57),
        ("fourier.c", "cufftXt.h", 2),
        ("blas.c", "cublas_api.h", 12),
    ],
)
def test_functions_with_outputs_have_the_parameters_of_the_header(source, header, least):
    path = headers() / header
    if not path.is_file():
        pytest.skip(f"the CUDA package of this PyTorch lacks {header}")
    theirs = functions(without_comments(path))
    ours = {name: given for name, given in functions(expanded(source)).items() if name in theirs}
    assert len(ours) >= least
    assert ours == {name: theirs[name] for name in ours}
