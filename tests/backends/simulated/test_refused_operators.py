"""Reasons for operators that have no answer yet."""

from contextlib import suppress

import torch
import torch.nn.functional as F

from pytest_attnmem.errors import CannotSimulate


def test_batch_norm_by_cudnn(run):
    def trained():
        torch.nn.BatchNorm2d(4, device="cuda")(torch.empty(2, 4, 8, 8, device="cuda"))

    assert run(trained).unmeasured == "no model of aten.batch_norm.default by cuDNN"


def test_batch_norm_without_cudnn(run):
    def trained():
        layer = torch.nn.BatchNorm2d(4, device="cuda", dtype=torch.bfloat16)
        with torch.no_grad():
            return layer(torch.empty(2, 4, 8, 8, device="cuda", dtype=torch.bfloat16))

    assert run(trained).unmeasured is None


def test_the_gradient_of_a_target(run):
    def trained():
        x, target = torch.empty(2, 8, 8, device="cuda", requires_grad=True)
        F.binary_cross_entropy_with_logits(x, target)

    assert run(trained).unmeasured == (
        "no model of the gradient of the target of aten.binary_cross_entropy_with_logits.default"
    )


def test_an_operator_without_a_shape_rule(run):
    def margin():
        x = torch.empty(4, 5, device="cuda", requires_grad=True)
        loss = F.multi_margin_loss(x, torch.zeros(4, dtype=torch.int64, device="cuda"))
        with suppress(CannotSimulate):
            loss.backward()

    assert run(margin).unmeasured.startswith(
        "aten.multi_margin_loss_backward.default, which PyTorch cannot run without data, needs the"
    )
