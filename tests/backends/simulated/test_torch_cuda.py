"""``torch.cuda`` of a program on a simulated device."""

import inspect
from functools import partial

import pytest
import torch

from pytest_attnmem.errors import CannotSimulate

OTHER = (1, "cuda:1", torch.device("cuda:1"))
NAMES = (
    *("set_device", "synchronize", "get_device_properties", "memory_allocated", "memory_stats"),
    *("max_memory_allocated", "mem_get_info", "reset_peak_memory_stats", "device", "Stream"),
    *("current_stream", "default_stream", "memory_summary", "reset_accumulated_memory_stats"),
    "ExternalStream",
)
#: Modules whose functions a simulation replaces.
MODULES = (torch, torch.cuda, torch.cuda.memory, torch.cuda.random, torch.random, torch.accelerator)
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@pytest.mark.parametrize("name", NAMES)
def test_there_is_one_device(run, name):
    found = []

    def program():
        call = getattr(torch.cuda, name)
        if name == "ExternalStream":
            call = partial(call, 3)
        for device in (0, "cuda", "cuda:0", torch.device("cuda")):
            call(device)
        for device in OTHER:
            with pytest.raises(CannotSimulate) as refused:
                call(device)
            found.append(str(refused.value))
        with pytest.raises(ValueError, match=r"^Expected a cuda device, but got: cpu$"):
            call("cpu")

    run(program)
    assert [text.partition(" at ")[0] for text in found] == [
        f"the simulated backend has one device, 'cuda', not {str(device)!r}" for device in OTHER
    ]


def test_a_generator_is_of_the_one_device(run):
    def program():
        state = torch.cuda.get_rng_state("cuda:0")
        wanted = torch.rand(4, device="cuda").tolist()
        torch.cuda.set_rng_state(new_state=state, device=0)
        assert torch.rand(4, device="cuda").tolist() == wanted
        torch.cuda.set_rng_state_all(new_states=[state])
        assert torch.rand(4, device="cuda").tolist() == wanted
        calls = (
            partial(torch.cuda.get_rng_state, 1),
            partial(torch.cuda.set_rng_state, state, "cuda:1"),
            partial(torch.cuda.set_rng_state_all, [state, state]),
        )
        for call in calls:
            with pytest.raises(CannotSimulate, match="the simulated backend has one device"):
                call()

    run(program)


def test_each_function_takes_what_the_function_in_its_place_takes(run):
    functions = [
        (module, name, inspect.signature(function))
        for module in MODULES
        for name, function in vars(module).items()
        if inspect.isfunction(function)
    ]
    replaced, refused = [], []

    def program():
        for module, name, wanted in functions:
            found = inspect.signature(getattr(module, name))
            if found == wanted:
                continue
            replaced.append(name)
            given = [one for one in wanted.parameters.values() if one.kind not in VARIADIC]
            needed = [one for one in given if one.default is one.empty]
            for one in given:
                by_place = [0 for other in needed if other.kind is other.POSITIONAL_ONLY]
                by_name = {
                    other.name: 0
                    for other in (*needed, one)
                    if other.kind is not other.POSITIONAL_ONLY
                }
                try:
                    found.bind(*by_place, **by_name)
                except TypeError as error:
                    refused.append(f"{name}({one.name}): {error}")

    run(program)
    assert {"from_dlpack", "get_rng_state", "memory_stats", "synchronize"} <= {*replaced}
    assert not refused


def test_the_present_device_is_the_one(run):
    def program():
        with torch.cuda.device(0) as entered:
            assert entered is None
            assert torch.cuda.current_device() == 0
        with torch.cuda.device(None), torch.cuda.device("cuda"):
            torch.cuda.synchronize()

    run(program)
