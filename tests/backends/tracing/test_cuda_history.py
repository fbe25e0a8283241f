"""The allocator's history, scripted; the tensors are real, on the CPU."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from pytest_attnmem.backends.cuda import Cuda
from pytest_attnmem.backends.tracing.cuda_history import NEEDED, CudaMemoryHistory
from pytest_attnmem.backends.tracing.dispatch_tracker import Tracker
from pytest_attnmem.measurement.protocol import Delta


class ScriptedMemory:
    """``torch.cuda.memory``: records scripted allocations, with the current label."""

    def __init__(self):
        self.entries = [{"action": "alloc", "addr": 1, "size": 99, "frames": []}]  # from before
        self.label = ""
        self.calls = []

    def _record_memory_history(self, enabled, **options):
        self.calls.append(enabled)

    def _snapshot(self):
        return {"device_traces": [["another's"], self.entries], "segments": ["of both"]}

    def _set_memory_metadata(self, label):
        self.label = label

    def alloc(self, address, size, label=None, frames=()):
        entry = {"action": "alloc", "addr": address, "size": size, "frames": list(frames)}
        self.entries.append({**entry, "user_metadata": self.label if label is None else label})

    def free(self, address):
        self.entries.append({"action": "free_requested", "addr": address, "size": 0})
        self.entries.append({"action": "free_completed", "addr": address, "size": 0})


@pytest.fixture
def memory():
    return ScriptedMemory()


@pytest.fixture
def history(memory):
    return CudaMemoryHistory(1, memory)


def held(interval):
    return [tensor for _, tensor in interval.held]


def test_the_snapshot_of_an_interval_is_of_this_device_and_in_the_words_of_the_program(
    history, memory
):
    history.start()
    y = torch.ones(3, 5)
    memory.alloc(y.data_ptr(), 60, str(len(history._mode._calls) - 1))
    memory.alloc(7, 64, "")
    memory.free(7)
    snapshot = history.stop().snapshot
    assert (snapshot["segments"], snapshot["device_traces"][0]) == (["of both"], [])
    entries = snapshot["device_traces"][1]
    assert [entry["action"] for entry in entries] == [
        *("alloc", "alloc", "free_requested", "free_completed")
    ]
    line = entries[0]["user_metadata"].rpartition("  ")
    assert line[0] == "[3, 5] float32  ones"
    assert line[2].startswith("test_cuda_history.py:")
    assert entries[1]["user_metadata"] == "(not by an operator)"


def test_recording_begins_and_ends_with_the_interval(history, memory):
    history.start()
    assert history.stop().requested == Delta(0, 0)  # earlier recordings are not read
    assert memory.calls == ["all", None]


def test_the_level_follows_allocations_and_completed_frees(history, memory):
    history.start()
    memory.alloc(10, 100)
    memory.alloc(20, 50)
    memory.free(10)
    memory.alloc(30, 20)
    interval = history.stop()
    assert interval.requested == Delta(150, 70)
    assert interval.allocations == 3
    assert [tensor.nbytes for tensor in held(interval)] == [100, 50]


def test_an_allocation_at_an_outputs_address_is_the_output(history, memory):
    x = torch.ones(3, 5)
    history.start()
    y = x.softmax(-1)
    number = str(len(history._mode._calls) - 1)
    memory.alloc(y.data_ptr(), 60, number)
    memory.alloc(7, 128, number)
    interval = history.stop()
    tensor, scratch = held(interval)
    assert (tensor.shape, tensor.dtype, tensor.op) == ((3, 5), "float32", "softmax")
    assert (scratch.nbytes, scratch.shape, scratch.dtype) == (128, (), "")
    assert scratch.op == "softmax (scratch)"
    assert tensor.where == scratch.where != ""
    assert tensor.where.startswith("test_cuda_history.py:")


def test_the_label_is_set_while_an_operator_runs_and_cleared_after(history, memory):
    seen = []
    memory._set_memory_metadata = seen.append
    history.start()
    torch.ones(2).add_(1)
    history.stop()
    assert seen == ["before 0", "0", "before 1", "1", "before 2", ""]


def grow():
    out = torch.empty(0)
    torch.mm(torch.ones(3, 4), torch.ones(4, 5), out=out)
    return out


@pytest.mark.parametrize(
    ("make", "before", "shape", "op"),
    [
        (grow, "", (3, 5), "mm"),
        (lambda: torch.empty(2).resize_(7), "", (7,), "resize"),
        (lambda: torch.tensor([1.0, 2.0]), "before ", (2,), "lift_fresh"),
    ],
)
def test_a_resized_output_and_a_new_input_are_tensors(history, memory, make, before, shape, op):
    history.start()
    made = make()
    label = before + str(len(history._mode._calls) - 1)
    memory.alloc(made.data_ptr(), 512, label)
    memory.alloc(7, 64, label)
    tensor, other = held(history.stop())
    assert (tensor.nbytes, tensor.shape, tensor.op) == (512, shape, op)
    assert other.op == ("(not by an operator)" if before else f"{op} (scratch)")


def test_an_allocation_by_no_operator_is_named_by_its_frames(history, memory):
    frames = [
        {"filename": torch.__file__, "line": 1, "name": "inside"},
        {"filename": "/somewhere/kernel.py", "line": 7, "name": "launch"},
    ]
    history.start()
    memory.alloc(5, 64, "", frames)
    (tensor,) = held(history.stop())
    assert (tensor.op, tensor.where, tensor.function) == (
        "(not by an operator)",
        "kernel.py:7",
        "launch",
    )


def test_a_block_may_be_freed_in_a_later_interval(history, memory):
    history.start()
    memory.alloc(10, 100)
    history.stop()
    history.start()
    memory.free(10)
    interval = history.stop()
    assert (interval.requested, interval.first_allocation) == (Delta(0, -100), 1)


@pytest.mark.parametrize("lacking", [*NEEDED, None])
def test_a_torch_without_it_falls_back_to_the_tracker(memory, monkeypatch, lacking):
    if lacking:
        monkeypatch.delattr(ScriptedMemory, lacking)
    cuda = type("Scripted", (), {"memory": memory})()
    assert isinstance(Cuda(1, cuda).tracer(), Tracker if lacking else CudaMemoryHistory)


def test_the_private_functions_are_still_those_we_know():
    assert all(hasattr(torch.cuda.memory, name) for name in NEEDED)


def test_compiled_code_runs_compiled_and_its_buffers_are_named(history, memory, tmp_path):
    path = tmp_path / "cabc.py"
    path.write_text(
        "# AOT ID: ['0_forward']\n"
        "buf0 = empty_strided_cuda((4, 4), (4, 1), torch.float32)\n"
        "# Topologically Sorted Source Nodes: [y], Original ATen: [aten.gelu]\n"
        "triton_poi_fused_gelu_0.run(arg0_1, buf0, 16, stream=raw_stream0)\n",
        "utf-8",
    )
    frame = {"filename": str(path), "line": 2, "name": "call"}

    def backend(graph, inputs):
        def compiled(*inputs):
            memory.alloc(40, 64, frames=[frame])
            return graph.forward(*inputs)

        return compiled

    function = torch.compile(lambda x: x + 1, backend=backend)
    function(torch.ones(2))
    memory.entries.clear()
    history.start()
    function(torch.ones(2))
    interval = history.stop()
    (buffer,) = held(interval)
    assert interval.problem is None
    assert (buffer.shape, buffer.dtype, buffer.op) == ((4, 4), "float32", "gelu")
    assert (buffer.where, buffer.function) == ("cabc.py:2", "graph 0_forward")


def test_the_tensors_of_a_tensor_that_holds_others_are_named(history, memory):
    pair = TwoTensor(torch.ones(3), torch.ones(3))
    history.start()
    total = pair + 1
    calls = len(history._mode._calls)
    for number, part in enumerate((total.a, total.b)):
        memory.alloc(part.data_ptr(), 12, str(calls - 2 + number))
    assert [(one.shape, one.op) for one in held(history.stop())] == [((3,), "add")] * 2
