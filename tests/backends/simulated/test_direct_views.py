"""Views that PyTorch's own kernels make at once."""

import pytest
import torch

from pytest_attnmem.backends.simulated.direct_views import VIEWS

aten = torch.ops.aten
CALLS = [
    (aten.alias.default, ()),
    (aten.detach.default, ()),
    (aten.expand.default, ([5, 2, 3, 4],)),
    (aten.permute.default, ([2, 0, 1],)),
    (aten.transpose.int, (0, -1)),
    (aten.t.default, ()),
    (aten.slice.Tensor, (1, -2, 9, 2)),
    (aten.select.int, (-1, 2)),
    (aten.squeeze.default, ()),
    (aten.squeeze.dim, (0,)),
    (aten.squeeze.dims, ([0, 1],)),
    (aten.unsqueeze.default, (-1,)),
    (aten.view.default, ([-1, 12],)),
    (aten._unsafe_view.default, ([6, 4],)),
    (aten.unfold.default, (2, 3, 1)),
    (aten.diagonal.default, (1, 1, 2)),
    (aten.as_strided.default, ([2, 2], [4, 1], 27)),
]


def source(func, device):
    """Begins behind its storage's first element, so that offsets count."""
    whole = torch.arange(48.0, device=device)[24:]
    return whole.view(6, 4) if func is aten.t.default else whole.view(2, 3, 4)


def described(tensor):
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype


def test_each_operator_has_a_call_here():
    assert [func for func, _ in CALLS] == [*VIEWS]


@pytest.mark.parametrize(("func", "args"), CALLS, ids=[str(func) for func, _ in CALLS])
def test_a_view_is_that_of_the_cpu(run, func, args):
    x = source(func, "cpu")
    view = func(x, *args)
    expected, numbers, negated = described(view), view.tolist(), view.neg().tolist()

    def program():
        x = source(func, "cuda")
        held = torch.cuda.memory_allocated()
        made = func(x, *args)
        assert described(made) == expected
        assert made.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert made.device == x.device
        assert torch.cuda.memory_allocated() == held
        assert made.tolist() == numbers
        x.neg_()
        assert made.tolist() == negated

    run(program)


def test_nothing_is_checked_before_a_view(run):
    """Else a view that is made at once would not be checked; ``as_strided`` checks itself."""

    def program():
        mode = torch.ones(1, device="cuda").__dict__["fake_mode"]
        for func in {*VIEWS} - {aten.as_strided.default}:
            facts = mode.known_ops.of(func)
            assert (facts.checks, facts.refusals, facts.composite) == ([], None, None)

    run(program)


def test_a_view_that_cannot_be_made_raises_what_it_raises_on_the_cpu(same_as_on_cpu):
    def errors(device):
        found = []
        for call in (
            lambda x: x.view(5),
            lambda x: x.mT.view(24),
            lambda x: x.transpose(0, 7),
            lambda x: x.select(0, 2),
            lambda x: x.permute(0, 1),
            lambda x: x.unsqueeze(9),
            lambda x: x.expand(7, 3, 4),
        ):
            with pytest.raises((RuntimeError, IndexError)) as error:
                call(torch.arange(24.0, device=device).view(2, 3, 4))
            found.append((type(error.value), str(error.value)))
        return found

    same_as_on_cpu(errors)


def test_views_of_other_tensors_take_the_usual_way(same_as_on_cpu):
    """Numbers with a known value, complex and negated tensors, and those of inference mode."""

    def results(device):
        number = torch.tensor(3.0)
        pairs = torch.arange(4.0, device=device).view(2, 2)
        z = torch.complex(pairs, -pairs)
        found = [number.view(1).add_(1), number, z.mT.imag, z.conj().imag.view(4)]
        with torch.inference_mode():
            view = pairs.view(4)
            found += [view, torch.ones(2, device=device).view(1, 2)]
        inference = [one.is_inference() for one in found]
        return [(one.tolist(), tag) for one, tag in zip(found, inference, strict=True)]

    same_as_on_cpu(results)


def test_views_in_a_backward_pass_have_their_gradients(same_as_on_cpu):
    def gradients(device):
        x = torch.arange(48.0, device=device).view(2, 2, 3, 4).requires_grad_()
        y = (torch.arange(32.0, device=device).view(2, 2, 2, 4) / 7).requires_grad_()
        for _ in range(3):
            torch.einsum("bhid,bhjd->bhij", x[:, :, 1:], y.flip(-1)).square().sum().backward()
        return x.grad.tolist(), y.grad.tolist()

    same_as_on_cpu(gradients)


def test_tensors_are_the_same_place_in_one_storage(run):
    def program():
        x = torch.ones(4, 4, device="cuda")
        assert x.is_set_to(x.view(4, 4))
        assert not any(map(x.is_set_to, (x.T, x[1:], x.clone())))

    assert run(program).unmeasured is None
