"""The first build of a machine, by one process or by several at once."""

import os
import subprocess
import sys

import pytest

from pytest_attnmem.nulldevice import build, stubs, torch_build

BUILD = "from pytest_attnmem.nulldevice.build import build; print(build())"


def test_builders_at_once_make_one_library_and_leave_nothing_else(tmp_path):
    over = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    builders = [
        subprocess.Popen([sys.executable, "-c", BUILD], env=over, stdout=-1, text=True)
        for _ in range(4)
    ]
    folders = {builder.communicate()[0].strip() for builder in builders}
    assert [builder.returncode for builder in builders] == [0] * 4
    made = list((tmp_path / "pytest-attnmem" / "nulldevice").iterdir())
    compiled, folder = sorted(made, key=lambda path: not path.name.startswith("compiled-"))
    assert folders == {str(folder)}
    assert {path.name for path in compiled.iterdir()} == {build.LIBRARY}
    ours = {build.LIBRARY, *build._OTHER_NAMES, stubs.CALLS}
    assert ours <= {path.name for path in folder.iterdir()}


def test_the_source_compiles_without_a_warning(tmp_path):
    torch = torch_build.find()
    headers = torch_build.find_headers(torch.packages, torch.major)
    strict = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
    include = (f"-I{build._SOURCE / 'shim'}", f"-I{headers}")
    for source in sorted(build._SOURCE.glob("*.c")):
        command = [*build.find_compiler(), *build._FLAGS, *strict, *include, "-c", str(source)]
        done = subprocess.run([*command, "-o", str(tmp_path / "a.o")], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("variable", ["ATTNMEM_NULL_MEMORY", "ATTNMEM_NULL_DEVICES"])
def test_without_a_profile_there_is_no_device(under, variable):
    script = "import torch; answer(torch.cuda.is_available(), torch.cuda.device_count())"
    assert under(script, **{variable: ""}) == (False, 0)
