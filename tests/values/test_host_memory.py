"""The host's memory for the values of one operator."""

from types import SimpleNamespace

import pytest
import torch

from pytest_attnmem.errors import UnknownValue
from pytest_attnmem.values import host_memory
from pytest_attnmem.values.host_memory import free_memory, require_memory

MiB = 1 << 20
EXP = torch.ops.aten.exp.default
ATTEND = torch.ops.aten._scaled_dot_product_efficient_attention.default


def reference(*shape, dtype=torch.float32):
    return SimpleNamespace(shape=shape, layout=SimpleNamespace(dtype=dtype))


def refused(free, monkeypatch, func, args, outputs):
    monkeypatch.setattr(host_memory, "free_memory", lambda: free)
    try:
        require_memory(func, args, {}, outputs)
    except UnknownValue as error:
        return str(error)
    return ""


def test_an_operator_may_take_half_of_the_free_memory(monkeypatch):
    x = reference(MiB, 64)
    assert not refused(512 * MiB, monkeypatch, EXP, (x,), [x])
    assert refused(512 * MiB - 1, monkeypatch, EXP, (x,), [x]) == (
        "it takes 256.0 MiB of the host's memory, of which 512.0 MiB are free"
    )


def test_the_cpu_computes_narrow_floats_in_wider_tensors(monkeypatch):
    x = reference(MiB, 64, dtype=torch.bfloat16)
    assert "takes 640.0 MiB" in refused(MiB, monkeypatch, EXP, (x,), [x])


def test_attention_takes_whole_matrices_of_scores(monkeypatch):
    q = reference(1, 8, 2048, 64)
    taken = 5 * 4 * 8 * 2048**2 + 4 * 8 * 2048 * 64
    assert refused(2 * taken - 1, monkeypatch, ATTEND, (q, q, q, None, False), [q])
    assert not refused(2 * taken, monkeypatch, ATTEND, (q, q, q, None, False), [q])


def test_a_small_operator_is_not_looked_at(monkeypatch):
    x = reference(1024)
    assert not refused(0, monkeypatch, EXP, (x,), [x])


def test_a_system_that_tells_nothing_has_no_limit(monkeypatch):
    x = reference(MiB, MiB)
    assert not refused(None, monkeypatch, EXP, (x,), [x])


@pytest.fixture
def system(monkeypatch, tmp_path):
    """Writes the files of the kernel."""
    first, second = tmp_path / "v2", tmp_path / "v1"
    monkeypatch.setattr(host_memory, "_HOST", tmp_path / "meminfo")
    containers = [
        (folder, *names)
        for folder, (_, *names) in zip((first, second), host_memory._CONTAINERS, strict=True)
    ]
    monkeypatch.setattr(host_memory, "_CONTAINERS", containers)

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
