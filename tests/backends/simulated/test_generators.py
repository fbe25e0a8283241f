"""Generators of a program: the same numbers and states as on the null device."""

import copy

import pytest
import torch

from pytest_attnmem.values.notes import Random

CUDA = torch.device("cuda")


@pytest.fixture
def program(returned):
    """Returns a function that runs a program once it has named the device."""
    return lambda program: returned(lambda: [torch.ones(1, device="cuda"), program()])[1]


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


def test_states_are_taken_restored_and_cloned_before_a_number_is_read(program):
    def draws():
        generator = torch.Generator("cuda").manual_seed(5)
        drawn(generator, 7)
        state, clone, copied = generator.get_state(), generator.clone_state(), copy.copy(generator)
        expected = drawn(generator)
        generator.set_state(state)
        found = [drawn(each).tolist() for each in (clone, generator, copied)]
        return found, expected.tolist(), clone.initial_seed()

    found, expected, seed = program(draws)
    assert found == [expected] * 3
    assert seed == 5


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


@pytest.mark.parametrize("anywhere", ["outside"], indirect=True)
def test_generators_draw_outside_windows_too(anywhere):
    generator = torch.Generator("cuda").manual_seed(5)
    assert [drawn(generator).tolist() for _ in "ab"] == [numbers(5, 0), numbers(5, 4)]
    assert copy.deepcopy(generator).get_offset() == 8
