"""The table of equivalents: every operator that CUDA alone has, and one equivalent for each."""

from types import ModuleType

import pytest
import torch

from pytest_attnmem.values.host_table import arguments, collect, equivalent, operators

aten = torch.ops.aten


def test_every_row_is_an_operator_of_torch():
    for name in operators():
        namespace, packet, overload = name.split(".")
        found = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
        newest = name.endswith("_attention_forward_no_dropout_inplace.default")
        assert str(found) == name or newest


def test_arguments_come_with_defaults():
    call = arguments(aten._fused_dropout.default, (1,), {"p": 0.5})
    assert vars(call) == {"self": 1, "p": 0.5, "generator": None}


def test_an_operator_of_the_cpu_has_no_equivalent():
    assert equivalent(aten.mm.default) is None
    assert equivalent(aten.mm.out) is None


def test_two_equivalents_of_one_operator_are_refused():
    first, second = ModuleType("first"), ModuleType("second")
    first.OPERATORS = second.OPERATORS = {"aten.mm.default": print}
    text = "aten.mm.default is computed in first and in second; keep one"
    with pytest.raises(ValueError, match=f"^{text}$"):
        collect([first, second])


def test_all_outputs_of_an_out_overload_are_written():
    row, out = torch.ones(3), [torch.empty(0) for _ in range(4)]
    targets = dict(zip(("out0", "out1", "out2", "out3"), out, strict=True))
    image = torch.randn(2, 3, 4)
    given = (image, row, None, None, None, True, 0.1, 1e-5)
    out[3] = targets["out3"] = torch.empty(5, dtype=torch.uint8)
    run = equivalent(aten.cudnn_batch_norm.out)
    assert run is not None
    found = run(given, targets)
    assert all(one is target for one, target in zip(found, out, strict=True))
    torch.testing.assert_close(out[1], image.mean((0, 2)))
    assert out[3].shape == (0,)
