"""Generators of a program: the same numbers and states as on the null device."""

import copy

import pytest
import torch
from torch import nn

from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.values.notes import Random

CUDA = torch.device("cuda")


@pytest.fixture
def program(run):
    """Returns a function that runs a program in a window, and returns what the program does."""

    def ran(program):
        found = []

        def body():
            torch.ones(1, device="cuda")  # names the device
            found.append(program())

        assert run(body).unmeasured is None
        return found[0]

    return ran


def numbers(seed, offset, count=3):
    """Returns what the null device draws from a generator of CUDA."""
    state = torch.Generator().manual_seed(Random(seed, offset).host_seed)
    return torch.rand(count, generator=state).tolist()


def drawn(generator, count=3):
    return torch.rand(count, device=generator.device, generator=generator)


def test_a_generator_of_the_device_has_its_own_numbers_in_any_order_of_reads(program):
    def draws():
        generator = torch.Generator("cuda").manual_seed(5)
        first, second = drawn(generator), drawn(generator)
        torch.cuda.manual_seed(7)
        return second.tolist(), first.tolist(), generator.get_offset(), generator.initial_seed()

    assert program(draws) == (numbers(5, 4), numbers(5, 0), 8, 5)


def test_a_generator_that_nobody_seeds_has_cudas_seed(program):
    def draws():
        generator = torch.Generator(device="cuda")
        return generator.initial_seed(), drawn(generator).tolist(), generator.get_state().tolist()

    seed, found, state = program(draws)
    assert (seed, found) == (67280421310721, numbers(67280421310721, 0))
    assert state == [1, 209, 156, 241, 48, 61, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_states_are_taken_restored_and_cloned_before_a_number_is_read(program, device):
    def draws():
        generator = torch.Generator(device).manual_seed(5)
        drawn(generator, 7)
        state, clone, copied = generator.get_state(), generator.clone_state(), copy.copy(generator)
        expected = drawn(generator)
        generator.set_state(state)
        found = [drawn(each).tolist() for each in (clone, generator, copied)]
        return found, expected.tolist(), clone.initial_seed()

    found, expected, seed = program(draws)
    assert found == [expected] * 3
    assert seed == 5


def test_a_generator_of_the_host_has_pytorchs_numbers(program):
    def draws():
        generator = torch.Generator().manual_seed(5)
        weight = nn.init.kaiming_normal_(torch.empty(3, 3), generator=generator)
        order = torch.randperm(6, generator=generator)
        loader = torch.utils.data.RandomSampler(range(7), generator=generator)
        counts = torch.poisson(torch.ones(4), generator=generator)
        return list(loader), counts.tolist(), order.tolist(), weight.tolist()

    assert program(draws) == draws()


def test_every_operator_takes_a_generator_of_the_device(program):
    def draws():
        generator = torch.Generator("cuda").manual_seed(5)
        x = torch.full((4,), 0.5, device="cuda")
        for name in ("normal_", "uniform_", "exponential_", "bernoulli_", "cauchy_", "log_normal_"):
            getattr(torch.empty(4, device="cuda"), name)(generator=generator)
        torch.multinomial(x, 2, generator=generator)
        torch.normal(x, x, generator=generator)
        return generator.get_offset()

    assert program(draws) == 8 * 4


def test_the_default_generators_are_objects_of_the_program(program):
    def draws():
        torch.manual_seed(8)
        (device,), host = torch.cuda.default_generators, torch.default_generator
        torch.rand(3)
        state = host.get_state()
        expected = torch.rand(3)
        host.set_state(state)
        found = drawn(host).tolist()
        return found == expected.tolist(), drawn(device).tolist(), device.get_offset(), host.device

    assert program(draws) == (True, numbers(8, 0), 4, torch.device("cpu"))


def test_states_of_the_device_are_shared_and_offsets_are_set(program):
    def draws():
        generator = torch.Generator("cuda").manual_seed(-1)
        shared, other = generator.graphsafe_get_state(), torch.Generator("cuda")
        other.graphsafe_set_state(shared)
        generator.set_offset(8)
        found = drawn(other).tolist()
        with pytest.raises(RuntimeError, match=r"^RNG state is wrong size$"):
            generator.set_state(torch.zeros(3, dtype=torch.uint8))
        generator.set_state(torch.tensor([9, 0, 0, 0, 0, 0, 0, 0], dtype=torch.uint8))
        return found, generator.initial_seed(), shared.get_offset(), generator.seed() >= 0

    assert program(draws) == (numbers(2**64 - 1, 8), 9, 0, True)


def test_a_program_that_starts_again_finds_the_states_of_the_device(run):
    found = []

    def body():
        x = torch.rand(3)
        found.append(torch.cuda.get_rng_state().tolist()[8])
        return x.cuda()  # the device is named too late

    run(body)
    assert found[1] == found[0] - 4


def test_generators_draw_outside_windows_too():
    outside = open_backend("simulated:A100-80GB").outside()
    outside.enter()
    try:
        generator = torch.Generator("cuda").manual_seed(5)
        assert [drawn(generator).tolist() for _ in "ab"] == [numbers(5, 0), numbers(5, 4)]
        assert copy.deepcopy(generator).get_offset() == 8
        host = torch.Generator().manual_seed(5)
        assert host.device.type == "cpu"
        assert drawn(host).tolist() == drawn(host.manual_seed(5)).tolist()
    finally:
        outside.exit()


def test_a_generator_continues_in_the_next_window_after_numbers_that_nobody_read(run):
    generator, found = torch.Generator().manual_seed(5), []
    expected = [torch.rand(3, generator=generator).tolist() for _ in "ab"]
    generator.manual_seed(5)

    def body():
        torch.ones(1, device="cuda")
        found.append(torch.rand(3, generator=generator))
        found[-1:] = [found[-1].tolist()] if len(found) == 2 else [None]

    run(body)
    run(body)
    assert found == [None, expected[1]]


def test_numbers_of_the_host_are_drawn_at_once_outside_windows():
    outside = open_backend("simulated:A100-80GB").outside()
    outside.enter()
    try:
        torch.manual_seed(3)
        drawn = torch.ones(2, device="cuda").cpu().normal_()
        after = torch.rand(2)
        found = [drawn.tolist(), after.tolist()]
    finally:
        outside.exit()
    torch.manual_seed(3)
    assert found == [torch.ones(2).normal_().tolist(), torch.rand(2).tolist()]
