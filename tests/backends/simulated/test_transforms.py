"""Functions of the program inside transforms of ``torch.func``."""

import pytest
import torch
import torch.nn.functional as F
from func_transforms import TRANSFORMS
from recordings import INSTALLED

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


def made(*shape, **options):
    return torch.ones(shape, device="cuda", **options)


#: Programs, and their peaks on the null device.
PEAKS = {
    "a cell": (
        lambda: torch.func.vjp(torch.nn.GRUCell(8, 16, device="cuda"), made(5, 8)),
        8_527_072 if INSTALLED == "2.15" else 8_528_992,
    ),
    "dropout": (lambda: torch.func.vjp(F.dropout, made(4, 16)), 576),
    "gather": (
        lambda: torch.func.grad(
            lambda x: x.gather(1, torch.ones(4, 2, dtype=torch.int64, device="cuda")).sum()
        )(made(4, 16)),
        840,
    ),
    "batch norm": (
        lambda: torch.func.grad(lambda x: F.batch_norm(x, None, None, training=True).sum())(
            made(4, 3, 5)
        ),
        512,
    ),
}


@pytest.mark.parametrize("name", PEAKS)
def test_a_transform_has_the_peak_of_the_null_device(run, name):
    program, peak = PEAKS[name]
    seen = run(program, primed=False)
    assert (seen.unmeasured, seen.peak_bytes) == (None, peak)


@pytest.mark.parametrize(
    "options", [{"requires_grad": True}, {}], ids=["with gradients", "with a mask"]
)
def test_attention_in_a_batch_that_nobody_compared_has_no_model(run, options):
    def program():
        mask = None if options else torch.ones(8, 8, dtype=torch.bool, device="cuda")
        q = made(3, 2, 4, 8, 16, **options)
        torch.vmap(lambda x: F.scaled_dot_product_attention(x, x, x, mask))(q)

    assert run(program).unmeasured == (
        "no model of aten.scaled_dot_product_attention.default under torch.func; use"
        " backend='null' or 'cuda'"
    )
