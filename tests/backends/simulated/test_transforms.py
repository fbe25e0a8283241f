"""Functions of the program inside transforms of ``torch.func``."""

import pytest
import torch
from func_transforms import TRANSFORMS

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # forward_ad's own


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.5, False)])
def test_a_dropout_that_drops_nothing_has_an_answer_in_a_transform(run, p, training):
    def dropped(x):
        return torch.dropout(torch.nn.functional.dropout(x * x, p, training), p, training).sum()

    def kept(x):
        return (x * x).sum()

    x = torch.ones(2, 3)
    seen, expected = (run(lambda f=f: torch.func.grad(f)(x.cuda())) for f in (dropped, kept))
    assert (seen.unmeasured, seen.peak_bytes) == (None, expected.peak_bytes)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_tensor_from_outside_is_an_input_of_a_transform(run, transform):
    def call(x):
        TRANSFORMS[transform](lambda x: (x * x).sum())(x)

    outside = torch.ones(2, 3)
    expected, seen = run(lambda: call(torch.ones(2, 3, device="cuda"))), run(lambda: call(outside))
    assert (seen.unmeasured, seen.peak_bytes) == (None, expected.peak_bytes - 24)


def test_layers_of_a_batch_that_call_a_fused_kernel_have_no_model(run):
    layer = torch.nn.MultiheadAttention(16, 4, batch_first=True)

    def program():
        on_device, x = layer.cuda(), torch.ones(3, 2, 8, 16, device="cuda")
        return torch.vmap(lambda x: on_device(x, x, x, need_weights=False)[0])(x)

    assert run(program).unmeasured == (
        "no model of aten.scaled_dot_product_attention.default under torch.func; use"
        " backend='null' or 'cuda'"
    )
