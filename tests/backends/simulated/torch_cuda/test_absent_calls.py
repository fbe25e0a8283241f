"""Functions of ``torch.cuda`` on a simulated device: some are refused, in one line."""

import sys

import pytest
import torch

from pytest_attnmem.errors import CannotSimulate

REFUSED = {
    "host_memory_stats": lambda: torch.cuda.host_memory_stats(),
    "memory._snapshot": lambda: torch.cuda.memory_snapshot(),
    "memory._record_memory_history": lambda: torch.cuda.memory._record_memory_history(),
    "memory._set_allocator_settings": lambda: torch._C._accelerator_setAllocatorSettings("a:b"),
    "set_per_process_memory_fraction": lambda: torch.cuda.set_per_process_memory_fraction(0.5, 0),
    "set_sync_debug_mode": lambda: torch.cuda.set_sync_debug_mode("error"),
    "MemPool": lambda: torch.cuda.MemPool(),
    "graph_pool_handle": lambda: torch.cuda.graph_pool_handle(),
    "get_stream_from_external": lambda: torch.cuda.get_stream_from_external(3),
    "tunable.enable": lambda: torch.cuda.tunable.enable(),
    "caching_allocator_alloc": lambda: torch.cuda.memory.caching_allocator_alloc(16),
    "caching_allocator_delete": lambda: torch.cuda.caching_allocator_delete(512),
}


@pytest.mark.parametrize("name", ["_cuda_clearCublasWorkspaces", "_cuda_of_a_later_torch"])
def test_a_function_of_pytorchs_own_module_is_refused_by_its_name(run, name):
    def program():
        with pytest.raises(AttributeError, match=r"'torch\._C' has no attribute '_of_no_device'"):
            torch._C._of_no_device  # noqa: B018
        with pytest.raises(CannotSimulate, match=rf"^torch\._C\.{name} at "):
            getattr(torch._C, name)()

    run(program)
    assert not hasattr(torch._C, "_cuda_of_a_later_torch")


@pytest.mark.parametrize(("name", "call"), REFUSED.items(), ids=REFUSED)
def test_a_function_without_an_answer_is_refused(run, name, call):
    def program():
        torch.ones(1, device="cuda")
        with pytest.raises(CannotSimulate) as refused:
            call()
        found.append(str(refused.value))

    found = []
    seen = run(program)
    assert found[-1].startswith(f"torch.cuda.{name} at ")
    assert found[-1].endswith(" cannot be simulated")
    assert seen.unmeasured == found[-1]


def test_settings_at_their_defaults_are_no_reason_to_refuse(run):
    def program():
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.set_sync_debug_mode("default")
        torch.accelerator.set_device_index(0)
        with torch.accelerator.device_index(0):
            x = torch.ones(100, device="cuda")
        assert torch.cuda.get_per_process_memory_fraction() == 1.0
        assert not torch.cuda.tunable.is_enabled()
        assert not torch.cuda.graphs.is_current_stream_capturing()
        with torch.cuda.profiler.profile():
            torch.cuda.nvtx.mark("here")
        stats = torch.cuda.memory_stats_as_nested_dict()
        assert stats["requested_bytes"]["all"]["current"] >= 400
        assert (stats["num_ooms"], torch.cuda.memory_stats()["num_alloc_retries"]) == (0, 0)
        return x

    assert run(program).unmeasured is None


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # of PyTorch's import
def test_dynamo_is_reset_though_it_imports_what_a_build_without_cuda_lacks(run, monkeypatch):
    def program():
        torch._dynamo.reset()
        return torch.ones(100, device="cuda")

    monkeypatch.delitem(sys.modules, "torch._inductor.cudagraph_trees", raising=False)
    assert run(program).peak_bytes == 400
