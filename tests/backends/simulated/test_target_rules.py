"""Operators that write into a given tensor, ``out=``."""

import pytest
import torch

BYTES = 128 * 4 * 4


def made(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device="cuda")


def places(*shape):
    return torch.zeros(shape, dtype=torch.int64, device="cuda")


@pytest.fixture
def above(run):
    """Returns the bytes that a call takes beside its arguments and its target."""

    def measured(arguments, call, out=None):
        found = []

        def program():
            given = [argument() for argument in arguments]
            target = made(128, 4) if out is None else out()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            assert call(*given, out=target) is target
            found.append(torch.cuda.max_memory_allocated() - before)
            found.append(torch.cuda.memory_allocated() - before)

        seen = run(program)
        return seen.unmeasured or tuple(found)

    return measured


@pytest.mark.parametrize(
    ("arguments", "call", "expected"),
    [
        ([lambda: made(128, 2)], lambda x, out: torch.cat([x, x], 1, out=out), 0),
        (
            [lambda: made(128, 4), lambda: places(128, 4)],
            lambda x, i, out: torch.gather(x, 0, i, out=out),
            0,
        ),
        (
            [lambda: made(8, 4), lambda: places(128)],
            lambda x, i, out: torch.index_select(x, 0, i, out=out),
            0,
        ),
        ([lambda: made(128, 4)], lambda x, out: torch.softmax(x, 1, out=out), 0),
        (
            [lambda: made(128, 4, dtype=torch.bfloat16)],
            lambda x, out: torch.softmax(x, 1, torch.float32, out=out),
            BYTES,
        ),
        (
            [lambda: made(128, 4, dtype=torch.float16)],
            lambda x, out: torch.log_softmax(x, 1, torch.float32, out=out),
            0,
        ),
        ([lambda: made(4, 128)], lambda x, out: torch.permute_copy(x, (1, 0), out=out), BYTES),
    ],
    ids=["cat", "gather", "index_select", "softmax", "cast", "not cast", "a copied result"],
)
def test_scratch_beside_a_target_of_the_results_size(above, arguments, call, expected):
    assert above(arguments, call) == (expected, 0)


def test_a_target_that_is_resized_is_allocated_first(above):
    def empty():
        return made(0)

    parts = [lambda: made(128, 2)]
    assert above(parts, lambda x, out: torch.cat([x, x], 1, out=out), empty) == (BYTES, BYTES)
    copied = above(
        [lambda: made(4, 128)], lambda x, out: torch.permute_copy(x, (1, 0), out=out), empty
    )
    assert copied == (2 * BYTES, BYTES)  # as on the null device


@pytest.mark.parametrize(
    ("arguments", "call", "out", "op"),
    [
        (
            [lambda: made(128, 2)],
            lambda x, out: torch.cat([x, x], 1, out=out),
            lambda: made(4, 128).T,
            "aten.cat.out",
        ),
        (
            [lambda: made(4, 128).T],
            lambda x, out: torch.cat([x], 1, out=out),
            None,
            "aten.cat.out",
        ),
        (
            [lambda: made(128, 2, dtype=torch.float16)],
            lambda x, out: torch.cat([x, x], 1, out=out),
            None,
            "aten.cat.out",
        ),
        (
            [lambda: made(2, 3, 3).triu()],
            lambda x, out: torch.linalg.solve(x, x, out=out),
            lambda: made(2, 3, 3),
            "aten._linalg_solve_ex.result",
        ),
    ],
    ids=["gaps", "gaps in an argument", "another dtype", "solve"],
)
def test_what_no_rule_knows_is_refused(above, arguments, call, out, op):
    assert above(arguments, call, out) == f"no model of {op}; use backend='null' or 'cuda'"


def test_values_and_their_places_are_written(run):
    def program():
        x, values, indices = made(4, 2), made(4, 2), places(4, 2)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        torch.cummax(x, 0, out=(values, indices))
        assert torch.cuda.max_memory_allocated() == before
        assert indices.tolist() == [[at, at] for at in range(4)]

    assert run(program).unmeasured is None


def test_two_targets_in_one_memory_are_refused(run):
    def program():
        target = made(4)
        torch.aminmax(made(4, 4), dim=0, out=(target, target))

    assert "no model of aten.aminmax.out" in (run(program).unmeasured or "")


def test_a_target_in_the_memory_of_an_argument_is_refused(run):
    def program():
        x = made(4, 4)
        torch.index_add(x, 0, places(4), made(4, 4), out=x)

    assert "no model of aten.index_add.out" in run(program).unmeasured


def test_targets_of_two_dtypes_are_refused(run):
    """``aminmax`` raises for them on CUDA, and PyTorch's rule of sizes does not in each version."""

    raised = []

    def program():
        try:
            torch.aminmax(made(4, 4), out=(made(), made(dtype=torch.float64)))
        except RuntimeError as error:
            raised.append(error)

    assert "no model of aten.aminmax.out" in (run(program).unmeasured or "") or raised


def test_a_target_has_the_memory_and_the_values_of_its_result(run):
    """PyTorch's rule of sizes for ``slice_scatter`` returns the argument in its place."""

    def program():
        x, target = made(3, 4), made(0)
        before = torch.cuda.memory_allocated()
        torch.slice_scatter(x, 2 * made(3, 2), 1, 0, 2, out=target)
        assert torch.cuda.memory_allocated() - before == 512
        assert target.tolist() == [[2.0, 2.0, 1.0, 1.0]] * 3
        assert x.tolist() == [[1.0] * 4] * 3

    assert run(program).unmeasured is None


def test_a_list_of_targets_is_resized(run):
    def program():
        targets = [made(0), made(0)]
        before = torch.cuda.memory_allocated()
        torch.split_with_sizes_copy(made(256, 4), [128, 128], out=targets)
        assert torch.cuda.memory_allocated() - before == 2 * BYTES
        torch.split_with_sizes_copy(made(256, 4), [128, 128], out=targets)
        assert targets[1].tolist() == [[1.0] * 4] * 128

    assert run(program).peak_bytes == 4 * BYTES + 88  # both, what is split, and the parts' places


def test_a_value_in_the_memory_that_it_fills_is_copied(run):
    def program():
        x, value = made(1000), made()
        found = []
        for each in (x[0], value, x[5], value):
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            x.fill_(each)
            found.append(torch.cuda.max_memory_allocated() - before)
        assert found == [512, 0, 512, 0]

    assert run(program).unmeasured is None


@pytest.mark.parametrize(
    ("call", "peak"), [(lambda x: x.ldexp_(x), 136), (lambda x: x.mul_(10).mvlgamma_(2), None)]
)
def test_an_operator_in_place_with_scratch_has_its_peak_or_none(run, call, peak):
    seen = run(lambda: call(made(4, 4)))
    if peak is None:
        assert "no model of aten.mvlgamma" in seen.unmeasured
    else:
        assert (seen.unmeasured, seen.peak_bytes) == (None, peak)  # as on the null device


@pytest.mark.parametrize(("dtype", "size"), [(None, 4), (torch.float64, 8)])
def test_norms_of_a_list_are_summed_in_the_dtype_of_the_results(run, dtype, size):
    def program():
        given = [made(4), made(6)]
        before = torch.cuda.memory_allocated()
        results = torch._foreach_norm(given, 2, dtype)
        program.found = torch.cuda.memory_allocated() - before, results[0].dtype.itemsize

    seen = run(program)
    assert program.found == (1024, size)
    assert seen.peak_bytes == (4 + 6) * 4 + 2 * size + 2 * size  # partial sums, and the results


@pytest.mark.parametrize("device", ["cuda", torch.device("cuda", 0)])
def test_normal_takes_the_device_of_its_target(run, device):
    def program():
        target = made(128, 4)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        assert torch.normal(0.0, 1.0, (128, 4), device=device, out=target) is target
        assert torch.cuda.max_memory_allocated() == before
        assert target.std().item() == pytest.approx(1, abs=0.2)

    assert run(program).unmeasured is None
