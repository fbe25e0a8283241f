"""Random tensors of the host inside a window: PyTorch's own numbers for the seed."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pytest_attnmem.backends.primed_backend import PrimedBackend


def seeded():
    torch.manual_seed(3)
    return torch.randn(5, 7), torch.rand(40), torch.randperm(10)


def seeded_twice():
    torch.manual_seed(3)
    first = torch.rand(4)
    torch.manual_seed(3)
    return first, torch.rand(4)


def modules():
    torch.manual_seed(3)
    layer = nn.Linear(20, 30)
    return layer.weight, layer.bias, nn.init.trunc_normal_(torch.empty(9, 9))


def sampled():
    torch.manual_seed(3)
    p = torch.rand(3, 8)
    return (
        torch.bernoulli(p),
        torch.multinomial(p, 4),
        torch.multinomial(p[0], 20, replacement=True),
        torch.normal(torch.zeros(3), torch.ones(3)),
        F.dropout(torch.ones(50), 0.3),
        F.gumbel_softmax(p),
        torch.rand_like(p),
        torch.empty(3, 4).uniform_(-1, 1),
    )


def by_generator():
    generator = torch.Generator().manual_seed(5)
    first = torch.randn(3, generator=generator), torch.randn(33, generator=generator)
    return *first, torch.randn(3, generator=generator.manual_seed(5))


def with_the_state_restored():
    torch.manual_seed(3)
    torch.rand(7)
    state = torch.get_rng_state()
    first = torch.randint(0, 9, (6,))
    torch.set_rng_state(state)
    again = torch.randint(0, 9, (6,))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        forked = torch.rand(2)
    return first, again, forked, torch.rand(2)


def in_another_dtype():
    torch.manual_seed(3)
    torch.set_default_dtype(torch.float64)
    try:
        return torch.rand(3), torch.rand(3, dtype=torch.float32)
    finally:
        torch.set_default_dtype(torch.float32)


PROGRAMS = (
    *(seeded, seeded_twice, modules, sampled, by_generator, with_the_state_restored),
    in_another_dtype,
)


@pytest.fixture
def generator():
    """Keeps the state of the host's generator from test to test."""
    before = torch.get_rng_state()
    yield torch.default_generator
    torch.set_rng_state(before)


def numbers(tensors):
    return [(tensor.dtype, tensor.tolist()) for tensor in tensors]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_numbers_are_those_of_the_seed(run, generator, program):
    found = []

    def body():
        x = torch.zeros(4, device="cuda")
        found.extend(numbers(program()))
        return x

    run(body)
    assert found == numbers(program())


def test_values_that_are_read_in_another_order_are_the_same(run, generator):
    found = []

    def body():
        x = torch.zeros(4, device="cuda")
        tensors = seeded()
        found.extend(reversed(numbers(reversed(tensors))))
        return x

    run(body)
    assert found == numbers(seeded())


def test_a_window_continues_after_the_fixtures_and_leaves_off_where_it_has_read(run, generator):
    found = []

    def body():
        x = torch.zeros(4, device="cuda")
        found.append(torch.rand(3).tolist())
        return x

    generator.manual_seed(3)
    torch.rand(5)
    run(body)
    found.append(torch.rand(3).tolist())
    generator.manual_seed(3)
    torch.rand(5)
    assert found == [torch.rand(3).tolist(), torch.rand(3).tolist()]


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
