"""The operators that the CPU has under another name or with other outputs, against PyTorch's."""

import pytest
import torch
import torch.nn.functional as F

from pytest_attnmem.errors import CannotCompute


def close(found, expected):
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dims", [2, 3])
def test_depthwise_convolution(run, values, dims):
    x, weight, bias = values(2, 4, *[6] * dims), values(8, 1, *[3] * dims), values(8)
    name = {2: "_conv_depthwise2d", 3: "conv_depthwise3d"}[dims]
    found = run(name, x, weight, [3] * dims, bias, [1] * dims, [1] * dims, [2] * dims)
    convolve = {2: F.conv2d, 3: F.conv3d}[dims]
    close(found, convolve(x, weight, bias, padding=1, dilation=2, groups=4))


def test_fused_dropout_keeps_a_share_and_scales_it(run, values):
    x = values(1000).abs() + 1
    out, mask = run("_fused_dropout", x, 0.25)
    assert mask.dtype == torch.uint8
    assert 150 < mask.sum() < 350
    close(out, torch.where(mask.bool(), x * 4, 0))
    close(run("_masked_scale", x, mask, 4.0), out)


def test_products_of_half_precision_with_a_wide_result(run, values):
    left, right = values(2, 3, 4).half(), values(2, 4, 5).half()
    other = values(2, 3, 5).float()
    exact = left.double() @ right.double()
    close(run("bmm.dtype", left, right, torch.float32), exact.float())
    close(run("mm.dtype", left[0], right[0], torch.float32), exact[0].float())
    found = run("addmm.dtype", other[0], left[0], right[0], torch.float32, beta=2, alpha=3)
    close(found, 2 * other[0] + 3 * exact[0].float())
    nan = torch.full_like(other, float("nan"))
    found = run("baddbmm.dtype", nan, left, right, torch.float32, beta=0)
    close(found, exact.float())


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_half_precision_with_a_wide_result(run, values, name):
    x, grad = values(3, 5).half().requires_grad_(), values(3, 5).float()
    expected = getattr(torch, name)(x.float(), 1)
    found = run(f"_{name}", x.detach(), 1, True)
    close(found, expected.detach())
    (expected_grad,) = torch.autograd.grad(expected, x, grad)
    close(run(f"_{name}_backward_data", grad, found, 1, torch.float16), expected_grad)


@pytest.mark.parametrize("shapes", [((), ()), ((4, 1), (1, 5))])
def test_scaled_products(run, values, shapes):
    left, right = values(4, 8).to(torch.float8_e4m3fn), values(8, 5).to(torch.float8_e4m3fn)
    scales = [values(*shape).float().abs() for shape in shapes]
    bias = values(5).bfloat16()
    found = run("_scaled_mm", left, right, *scales, bias, out_dtype=torch.bfloat16)
    exact = (left.double() * scales[0]) @ (right.double() * scales[1]) + bias.double()
    torch.testing.assert_close(found, exact.bfloat16())


def test_scales_of_blocks_are_refused(run, values):
    left, right = values(4, 8).to(torch.float8_e4m3fn), values(8, 5).to(torch.float8_e4m3fn)
    with pytest.raises(CannotCompute) as refused:
        run("_scaled_mm", left, right, torch.ones(2, 2), torch.ones(()))
    assert str(refused.value) == (
        "aten._scaled_mm.default: scale_a is float32[2, 2]; scales of blocks have no equivalent"
    )


def test_grids_of_cudnn(run, values):
    theta = values(2, 2, 3).requires_grad_()
    expected = F.affine_grid(theta, [2, 3, 4, 5], align_corners=True)
    grid = run("cudnn_affine_grid_generator", theta.detach(), 2, 3, 4, 5)
    close(grid, expected.detach())
    grad = values(*grid.shape)
    of_theta = run("cudnn_affine_grid_generator_backward", grad, 2, 3, 4, 5)
    close(of_theta, torch.autograd.grad(expected, theta, grad)[0])
    image, places = values(2, 3, 6, 6).requires_grad_(), grid.requires_grad_()
    sampled = F.grid_sample(image, places, align_corners=True)
    given = image.detach(), places.detach()
    close(run("cudnn_grid_sampler", *given), sampled.detach())
    grad = values(*sampled.shape)
    found = run("cudnn_grid_sampler_backward", *given, grad)
    close(found, torch.autograd.grad(sampled, (image, places), grad))


@pytest.mark.parametrize("as_tensors", [False, True])
def test_ctc_loss_of_cudnn(run, values, as_tensors):
    logits, targets = values(7, 2, 4).requires_grad_(), torch.tensor([1, 2, 3, 1])
    probabilities = logits.log_softmax(-1)
    expected = F.ctc_loss(probabilities, targets, (7, 7), (3, 1), reduction="none")
    lengths = [torch.tensor([7, 7]), torch.tensor([3, 1])] if as_tensors else [[7, 7], [3, 1]]
    name = "_cudnn_ctc_loss.Tensor" if as_tensors else "_cudnn_ctc_loss"
    costs, grad = run(name, probabilities.detach(), targets, *lengths, 0, True, False)
    close(costs, expected.detach())
    of_logits = torch.autograd.grad(probabilities, logits, grad)[0]
    wanted = F.ctc_loss(logits.log_softmax(-1), targets, (7, 7), (3, 1), reduction="sum")
    close(of_logits, torch.autograd.grad(wanted, logits)[0])


def test_log_sigmoid_keeps_nothing_for_its_backward(run, values):
    x, grad = values(6).requires_grad_(), values(6)
    expected = -(1 + (-x).exp()).log()
    out, buffer = run("log_sigmoid_forward", x.detach())
    close(out, expected.detach())
    assert buffer.shape == (0,)
    found = run("log_sigmoid_backward", grad, x.detach(), buffer)
    close(found, torch.autograd.grad(expected, x, grad)[0])


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("last", [False, True])
def test_bags_and_their_backward(run, values, mode, last):
    weight = values(10, 4).requires_grad_()
    indices, offsets = torch.tensor([1, 4, 4, 7, 0, 2]), torch.tensor([0, 2, 2, *[6] * last])
    bags = [indices[0:2], indices[2:2], indices[2:6]]
    reduce = (lambda rows: rows.sum(0), lambda rows: rows.mean(0), lambda rows: rows.amax(0))[mode]
    nothing = torch.zeros(4, dtype=torch.float64)
    expected = torch.stack([reduce(weight[bag]) if len(bag) else nothing for bag in bags])
    given = (weight.detach(), indices, offsets, False, mode, False, None, last)
    out, *kept = run("_embedding_bag", *given)
    close(out, expected.detach())
    assert kept[0].tolist() == [0, 0, 2, 2, 2, 2]
    assert kept[2].shape == ((3, 4) if mode == 2 else (0,))
    grad = values(3, 4)
    found = run("_embedding_bag_dense_backward", grad, indices, *kept, 10, False, mode, None)
    close(found, torch.autograd.grad(expected, weight, grad)[0])
    assert torch.equal(run("_embedding_bag_forward_only", *given)[0], out)


def test_a_word_to_the_allocator_computes_nothing(run, values):
    assert run("record_stream", values(2), None) is None


NUMBERS = [[-1, 0, 2, 2], [2, 3, 3, 5]]


@pytest.mark.parametrize(
    ("numbers", "bins", "low", "high", "counts"),
    [
        (NUMBERS, 4, 0, 3, [1, 0, 3, 2]),
        (NUMBERS, 2, 0, 3, [1, 5]),
        (NUMBERS, 3, 0, 0, [2, 3, 3]),
        (NUMBERS, 2, 5, 5, [2, 6]),
        ([7, 7], 4, 0, 0, [0, 0, 2, 0]),
    ],
    ids=["each", "halves", "of the values", "of equal ends", "around one value"],
)
def test_a_histogram_of_integers(run, numbers, bins, low, high, counts):
    found = run("histc", torch.tensor(numbers, dtype=torch.int32), bins, low, high)
    assert (found.tolist(), found.dtype) == (counts, torch.int32)
