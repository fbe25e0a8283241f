"""The free memory of the host, by the files of Linux."""

import pytest

from pytest_attnmem.values import free_memory as files
from pytest_attnmem.values.free_memory import free_memory


@pytest.fixture
def system(monkeypatch, tmp_path):
    """Writes the files of the kernel."""
    first, second = tmp_path / "v2", tmp_path / "v1"
    monkeypatch.setattr(files, "_HOST", tmp_path / "meminfo")
    containers = [
        (folder, *names)
        for folder, (_, *names) in zip((first, second), files._CONTAINERS, strict=True)
    ]
    monkeypatch.setattr(files, "_CONTAINERS", containers)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "ascii")

    return write


def test_nothing_is_known_without_the_files_of_linux(system):
    assert free_memory() is None


def test_the_host_has_what_linux_calls_available(system):
    system(meminfo="MemTotal:  900 kB\nMemAvailable:     300 kB\n")
    assert free_memory() == 300 * 1024


def test_a_container_has_less_than_the_host(system):
    system(meminfo="MemAvailable:     300 kB\n")
    system(v2__memory_dot_max="9000\n", v2__memory_dot_current="5000\n")
    assert free_memory() == 4000
    system(v2__memory_dot_stat="anon 4000\ninactive_file 700\n")
    assert free_memory() == 4700
    system(v2__memory_dot_max="max\n")
    assert free_memory() == 300 * 1024


def test_a_container_of_the_first_version_of_cgroups(system):
    system(v1__memory_dot_limit_in_bytes="9000\n", v1__memory_dot_usage_in_bytes="9500\n")
    assert free_memory() == 0
