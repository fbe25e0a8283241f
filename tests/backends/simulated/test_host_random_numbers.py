"""Random tensors of the host inside a window: PyTorch's own numbers for the seed."""

import pytest
import torch

from pytest_attnmem.backends.primed_backend import PrimedBackend


@pytest.fixture
def generator():
    """Keeps the state of the host's generator from test to test."""
    before = torch.get_rng_state()
    yield torch.default_generator
    torch.set_rng_state(before)


def test_a_program_that_starts_again_draws_the_same_numbers(run, generator):
    found = []

    def body():
        found.append(torch.rand(3))
        x = torch.zeros(4, device="cuda")  # named too late: the program starts again
        found[:] = [found[-1].tolist()]
        return x

    generator.manual_seed(3)
    run(body)
    generator.manual_seed(3)
    assert found == [torch.rand(3).tolist()]


def test_the_end_of_a_run_that_drew_on_the_host_takes_no_memory_of_the_device(backends, generator):
    backend = backends("A100-80GB")
    primed = PrimedBackend(backend, 0)

    def levels():
        statistics = backend.simulation.device.statistics
        return statistics.requested.current, statistics.reserved.current

    def body():
        torch.zeros(4, device="cuda")
        torch.rand(3).tolist()

    before = levels()
    primed.warm_up(body, 1)
    seen, _ = primed.run(body)
    assert seen.reserved_bytes == 2 << 20
    assert levels() == (before[0], before[1] + (2 << 20))  # the cache has the segment of the window


def test_a_program_without_a_device_draws_from_its_generator_onto_the_device(run):
    def drawn():
        generator = torch.Generator("cpu").manual_seed(3)
        made = torch.rand(3, 4, generator=generator), torch.randn(4, generator=generator)
        return *made, torch.empty(1000).uniform_(-1, 1, generator=generator)

    found = []

    def body():
        tensors = drawn()
        found.extend([tensor.is_cuda for tensor in tensors])
        found.extend(tensor.tolist() for tensor in tensors)

    measurement = run(body)
    assert found == [True] * 3 + [tensor.tolist() for tensor in drawn()]
    assert (measurement.unmeasured, measurement.peak_bytes) == (None, 48 + 16 + 4000)


def test_what_is_drawn_on_the_host_by_name_leaves_other_generators_alone(run, generator):
    found = []

    def body():
        drawn = torch.rand(3, device="cpu", generator=torch.Generator("cpu").manual_seed(3))
        found.append((drawn.is_cuda, drawn.tolist()))
        return torch.zeros(4)

    before = generator.get_state()
    run(body)
    wanted = torch.rand(3, generator=torch.Generator("cpu").manual_seed(3)).tolist()
    assert (found, generator.get_state().equal(before)) == ([(False, wanted)], True)
