"""Streams of a simulated device: their numbers, their workspaces and backward passes on them."""

import pytest
import torch

from pytest_attnmem.measurement.environment import are_kept
from pytest_attnmem.torch_releases import minor_version

WORKSPACE = 8_519_680


def test_streams_have_the_numbers_that_pytorch_gives_them(run):
    def program():
        made = [torch.cuda.Stream(priority=priority) for priority in (0, -1, -9, 1)]
        assert [stream.stream_id for stream in made] == [3, 5, 9, 35]
        assert [stream.priority for stream in made] == [0, -1, -3, 0]
        assert torch.cuda.Stream(stream_id=5, device_index=0, device_type=1) == made[1]
        assert torch.cuda.ExternalStream(made[1].cuda_stream) == made[1]
        others = [torch.cuda.Stream() for _ in range(30)]
        assert torch.cuda.Stream() == made[0] != others[0]

    run(program, "A100-40GB")


def test_a_stream_of_the_host_is_not_the_current_one(run):
    def program():
        host, other = torch.Stream("cpu"), torch.Stream(device="cuda", priority=-1)
        assert (host.device.type, host.device_index, host.stream_id) == ("cpu", -1, 0)
        assert (other.device.type, other.device_index, other.stream_id) == ("cuda", 0, 5)
        assert not isinstance(host, torch.cuda.Stream)
        assert isinstance(torch.cuda.Stream(), torch.Stream)
        assert host == torch.Stream("cpu") != torch.cuda.default_stream()
        with other, host as entered:
            assert entered is host
            assert torch.cuda.current_stream() == other
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        for kind in (torch.Stream, torch.cuda.Stream, torch.Event, torch.cuda.Event):
            with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
                kind(colour=1)

    run(program)


def test_the_time_between_events_that_were_recorded(run):
    def program():
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with pytest.raises(ValueError, match=r"^Both events must be recorded before calculating"):
            first.elapsed_time(last)
        first.record()
        assert torch.cuda.current_stream().record_event(last) is last
        assert first.elapsed_time(end_event=last) == 0
        with pytest.raises(ValueError, match=r"^Both events must be created with argument"):
            first.elapsed_time(torch.cuda.Event())
        torch.ones(1, device="cuda").record_stream(s=torch.cuda.Stream())

    run(program)


def product(stream):
    a = torch.ones(16, 16, device="cuda", requires_grad=True)
    with torch.cuda.stream(stream):
        return a @ a


@pytest.mark.usefixtures("kept_workspaces")
def test_the_workspace_of_a_stream_that_was_used_before_is_unknown(run):
    def program():
        streams = [torch.cuda.Stream(priority=-2) for _ in range(33)]
        product(streams[1])
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        product(streams[1])
        assert torch.cuda.max_memory_allocated() == before + 2048
        if repeats:
            product(streams[32])

    repeats = False
    assert run(program).unmeasured is None
    repeats = True
    assert run(program).unmeasured == (
        "PyTorch has 32 streams of a priority, which it hands out in turn, and the test's stream"
        " was another one's before, which may have left it a workspace; make streams once for all"
        " tests"
    )


def test_a_workspace_of_one_call_is_known_on_each_stream(run):
    def program():
        for _ in range(33):
            product(torch.cuda.Stream(priority=-3))

    if not are_kept(minor_version(torch.__version__)):
        assert run(program).peak_bytes == 2048 + WORKSPACE


def step(forward, backward):
    x = torch.ones(1000, device="cuda", requires_grad=True)
    with torch.cuda.stream(forward):
        loss = (x * 2).exp().sum()
    with torch.cuda.stream(backward):
        loss.backward()


def test_a_backward_pass_on_another_stream_is_not_enforced(run):
    side = default = None

    def program(forward, backward):
        nonlocal side, default
        side, default = torch.cuda.Stream(), torch.cuda.default_stream()
        step(*({"side": side, "default": default}[name] for name in (forward, backward)))

    for name in ("side", "default"):
        assert run(lambda name=name: program(name, name)).unmeasured is None
    for names in (("side", "default"), ("default", "side")):
        found = run(lambda names=names: program(*names)).unmeasured
        assert found.startswith("backward at test_streams.py:")
        assert found.endswith(
            " ran on another stream than its forward pass, so memory waits for the streams of a"
            " device; run both on one stream"
        )
