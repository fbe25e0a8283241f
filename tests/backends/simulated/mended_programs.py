"""Programs that the simulation once answered wrongly, recorded in ``tests/data/cuda/<version>``.

Random programs found them: each is the smallest that shows its error.
"""

import copy
from functools import partial

import torch
import torch.nn.functional as F
from listed_programs import listed, made
from random_programs import indices


def largest_of_a_tensor_with_gaps():
    """``max`` and ``min`` of all elements copy what is not contiguous."""
    made(100, 2048)[:, ::2].max()
    made(1, dtype=torch.uint8).expand(10_000).min()


def logsumexp_of_integers():
    made(50, 1000, dtype=torch.int64).logsumexp(-1)


def where_with_a_condition_of_the_host():
    x = made(7)
    torch.where(torch.tensor(True), x, x)


def sorted_long_rows_with_gaps():
    """A copy by row that has the result's strides is the only one."""
    made(9000)[::2].sort()
    made(1, 4099).expand(3, 4099).argsort()
    made(9000, 3, 2)[:, :, ::2].sort(0)


def scatters_into_parts_of_a_storage():
    """The copy has the size of the whole storage, also of one with the same strides."""
    for rows in (255, 258, 300):
        x = made(rows, 10)[:255]
        x.select_scatter(made(10), 0, 0)
        x.slice_scatter(made(1, 10), 0, 0, 1)
        x.diagonal_scatter(made(10))


def searches_of_other_dtypes_and_layouts():
    torch.bucketize(made(5, 100, dtype=torch.float16).t(), made(3))
    torch.searchsorted(made(6)[::2], made(5, 100, dtype=torch.int32))


def gradients_of_another_layout():
    """The gradient of the input has the layout of the output's, so its sum is a copy."""
    for activation in (
        *(torch.logit, F.hardsigmoid, F.elu, F.softplus, F.hardtanh, F.hardswish),
        *(F.logsigmoid, F.leaky_relu, lambda x: F.rrelu(x, training=True)),
    ):
        x = made(4099, 5, grad=True)
        activation(x).backward(made(5, 4099).t())
    x = made(1, 100, 5).expand(4099, 100, 5).requires_grad_()
    for activation in (F.leaky_relu, F.relu):
        activation(x).backward(made(5, 100, 4099).permute(2, 1, 0))
    F.huber_loss(x, made(5, 100, 4099).permute(2, 1, 0), reduction="none").contiguous()


def quotients_of_two_layouts():
    x, y = made(4099, 5), made(5, 4099).t()
    for function in (torch.xlogy, torch.copysign, torch.floor_divide):
        function(y, x).t().contiguous()


def saved_buffer_of_log_sigmoid():
    """On CUDA the buffer that it saves is empty, so nothing is packed."""
    x = made(64, 64, dtype=torch.bfloat16, grad=True)
    pack, unpack = torch.Tensor.half, torch.Tensor.bfloat16
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = F.logsigmoid(x)
    y.sum().backward()


def cross_entropy_with_positive_weights():
    x = made(33, 100, grad=True)
    F.binary_cross_entropy_with_logits(x, made(33, 100), pos_weight=made(100)).backward()


def indices_of_the_host():
    """Their copies are on the device as long as an operator reads by them."""
    x, places = made(1000, 33), torch.arange(50)
    x[places], x[:, places % 33], x[places.int()]
    x[places[:, None], torch.arange(20)], x[places, torch.arange(50, device="cuda") % 33]
    x[torch.arange(1000) % 3 == 0, 2], x[torch.ones(1000, 33, dtype=torch.bool)]


def writes_by_indices_of_the_host():
    x, places = made(1000, 33), torch.arange(50)
    x[places] = 2.0
    x[places, places % 33] = torch.tensor(3.0)
    x[torch.arange(1000) % 3 == 0] = made(33)
    x.index_put((places,), made(33))
    x.index_put_((places, places % 33), made(50), accumulate=True)
    x[places] += 1


def gradients_by_indices_of_the_host():
    x = made(100_000, 3, grad=True)
    x[torch.randperm(100_000)[:5000]].pow(2).mean().backward()
    x[torch.arange(100_000) % 3 == 0, 1].sum().backward()


def fused_steps_without_a_rule_of_sizes():
    for kind, options in (
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.Adagrad, {}),
        (torch.optim.AdamW, {"amsgrad": True}),
    ):
        for rate in (0.1, torch.tensor(0.1)):
            layer = torch.nn.Linear(64, 64, device="cuda")
            optimizer = kind(layer.parameters(), lr=rate, fused=True, **options)
            layer(made(3, 64)).sum().backward()
            optimizer.step()


def modules_on_meta_and_buffers_of_another_dtype():
    """A module gets new buffers, and new parameters where the device changes to ``meta``."""
    layer = torch.nn.BatchNorm1d(4096, device="cuda")
    kept = layer.running_mean, layer.weight
    layer.double()
    made(4096)
    layer.to("meta").to_empty(device="cuda")
    made(4096)
    del kept
    layers = [torch.nn.Linear(64, 64, device="cuda") for _ in range(3)]
    parameters, _ = torch.func.stack_module_state(layers)
    base = copy.deepcopy(layers[0]).to("meta")
    torch.func.vmap(lambda p, x: torch.func.functional_call(base, p, (x,)), (0, None))(
        parameters, made(5, 64)
    )


def views_in_inference_mode():
    """Views of a tensor from outside the mode are no inference tensors."""
    attention = torch.nn.MultiheadAttention(16, 4, device="cuda")
    query, key = made(3, 1, 16), made(5, 1, 16)
    for _ in range(2):
        with torch.inference_mode():
            attention(query, key, key)
            key.chunk(5)[0].add_(1)


def parameters_of_a_graph_moved_to_the_host():
    layer = torch.nn.Linear(300, 300, device="cuda")
    y = layer(made(5, 300, grad=True))
    layer.cpu()
    made(300, 300)
    layer.cuda()
    y.sum().backward()


def images_of_few_channels_resized():
    """Images in channels-last format have a kernel of their own from 4 channels on."""
    for channels in (1, 3, 4):
        x = made(2, channels, 32, 48).contiguous(memory_format=torch.channels_last)
        x.requires_grad_()
        for mode in ("nearest", "nearest-exact", "bilinear"):
            for size in ((32, 48), (40, 56)):
                y = F.interpolate(x, size=size, mode=mode)
                y.backward(torch.randn_like(y))


def indexed_by_sequences():
    """Each sequence in an index becomes a tensor on the device; a list may be a tuple of them."""
    x = made(64, 96)
    for index in (
        *([[0, 1], [2, 3]], range(40), [True, False] * 32, list(range(64)) * 2),
        *((slice(None), [[0, 1], [2, 3]]), (1, []), ([0, 1], range(2)), (None, [0, 5])),
    ):
        x[index] * 2
        x[index] = 1.0
        x[index] += 1
    for flag in (True, False):
        x[1, flag] = 2.0


def copies_with_gaps_between_host_and_device():
    """A copy of other than one piece goes through contiguous tensors of one dtype."""
    x, host = made(64, 96), torch.ones(64, 96, device="cpu")
    for part in (x[:, ::3], x.t(), x[:1].expand(64, 96), x.unfold(1, 5, 2), x[:, 3]):
        part.cpu()
        part.to("cpu", torch.float64)
        part.to("cpu", torch.float16, non_blocking=True)
        torch.empty(part.shape, device="cpu").copy_(part)
    for part in (host, host[:, ::3], host.t()):
        part.to("cuda", torch.float16)
        part.to("cuda", torch.float16, non_blocking=True)
        torch.empty(part.shape[::-1], device="cuda").t().copy_(part)
        torch.empty(2, *part.shape, device="cuda", dtype=torch.float16).copy_(part)


def choices_and_sizes_of_the_host():
    """A single choice goes to the device; lengths are numbers."""
    x = made(64, 96)
    torch.where(x > 0, torch.tensor(1.0, device="cpu"), x)
    torch.where(x > 0, torch.tensor(1.0, device="cpu"), torch.tensor(2, device="cpu"))
    torch.tensor_split(x, torch.tensor([2, 4], device="cpu"))[1] * 2
    scores = made(12, 3, 6).log_softmax(-1).requires_grad_()
    lengths = torch.full((3,), 12, device="cpu"), torch.tensor([5, 3, 2], device="cpu")
    F.ctc_loss(scores, torch.ones(3, 5, device="cuda", dtype=torch.long), *lengths).backward()


def tensors_taken_as_they_are():
    """``as_tensor`` and ``asarray`` that name the tensor's own device make no copy."""
    x = made(3000)
    kept = torch.as_tensor(x, device="cuda"), torch.asarray(x, device=x.device)
    y = torch.as_tensor(kept[0], dtype=torch.float64, device="cuda")
    torch.asarray(y, dtype=torch.half, device="cuda:0")


def norms_of_empty_and_transposed_tensors():
    """Empty tensors have no chunk, and results of their own."""
    tensors = [made(64), made(0, 5), made(700, 300).t(), made(0)]
    for order in (1, 2):
        torch._foreach_norm(tensors, order)
    torch._foreach_norm([made(0, 5)], 2)
    torch._foreach_norm([made(4, 5, 6, 7).to(memory_format=torch.channels_last)], 2)


def checks_of_all_elements():
    """Distributions check their arguments so."""
    for count in (1, 5, 100_000):
        torch._is_all_true(made(count) > 0)
        torch._is_any_true((made(count, 100) > 0).t())


def embedding_by_many_indices_of_int32():
    for count, rows in ((4000, 7), (9000, 1536), (50_001, 1536), (100_000, 70_000)):
        table = made(rows, 16, grad=True)
        F.embedding(torch.arange(count, device="cuda", dtype=torch.int32) % rows, table).backward(
            made(count, 16)
        )


def bags_with_gradients_of_one_number():
    for mode in ("sum", "mean"):
        bag = torch.nn.EmbeddingBag(1536, 16, mode=mode, device="cuda")
        places = torch.arange(5000, device="cuda", dtype=torch.int32) % 1536
        bag(places, torch.arange(0, 5000, 5, device="cuda", dtype=torch.int32)).sum().backward()


def one_row_written_by_a_mask():
    """The values do not tell how many elements the mask has: none here, as a recording needs."""
    x, row = made(4, 33, 64, grad=True) * 1, made(64, grad=True)
    mask = torch.zeros(4, 33, dtype=torch.bool, device="cuda")
    x[mask] = row
    x.sum().backward()
    y = made(4, 33, 64)
    y[:, mask[0]] = made(64)
    y[mask] = made(1, 64)
    y[mask] = torch.ones((), device="cuda")
    y.index_put((mask,), made(64))


def values_added_at_no_element():
    mask = torch.zeros(4, 33, dtype=torch.bool, device="cuda")
    x = made(4, 33, 64, grad=True)
    x[mask].sum().backward()
    x.transpose(0, 1)[mask.t()].sum().backward()
    places = torch.zeros(0, dtype=torch.int64, device="cuda")
    made(33, 4, 64).transpose(0, 1).index_put_((places,), made(0, 33, 64), accumulate=True)


def gradients_with_a_graph():
    """The formulas write in place there too, but sums of gradients are new tensors."""
    x = made(33, 64, grad=True)
    rows = torch.arange(64, device="cuda") % 33
    for loss in (x.max(), x[rows].sum(), x.take(rows).sum(), x.cummax(1).values.sum()):
        torch.autograd.grad(loss, x, create_graph=True)
    (first,) = torch.autograd.grad(x[[0, 2, 0]].square().sum(), x, create_graph=True)
    first.square().sum().backward()


def gradients_of_gradients():
    """Their formulas add tensors of their own, which is no sum of gradients."""
    for layer in (F.glu, partial(F.gelu, approximate="tanh")):
        x = made(33, 64, grad=True)
        (first,) = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
        first.square().sum().backward()
    x = (made(33, 64) * 0 + 0.5).requires_grad_()
    loss = F.binary_cross_entropy(x, torch.full_like(x, 0.25))
    (first,) = torch.autograd.grad(loss, x, create_graph=True)
    first.square().sum().backward()


def smoothed_labels_with_weights():
    """The mean selects the targets that count: none here, as a recording needs."""
    targets, weights = torch.zeros(64, dtype=torch.int64, device="cuda"), made(33)
    kinds = ("mean", "sum", "none")
    for kind in kinds:
        x = made(64, 33, grad=True)
        options = {"weight": weights, "label_smoothing": 0.1, "reduction": kind}
        F.cross_entropy(x, targets, ignore_index=0, **options).sum().backward()
    images = made(4, 33, 16, grad=True)
    loss = F.cross_entropy(
        images, targets.view(4, 16), weight=weights, label_smoothing=0.1, ignore_index=0
    )
    loss.backward()


def sequences_without_a_batch():
    logs = made(30, 20, grad=True).log_softmax(-1)
    targets = torch.ones(10, dtype=torch.int64, device="cuda")
    for kind in ("mean", "sum", "none"):
        F.ctc_loss(logs, targets, (30,), (10,), reduction=kind).sum().backward(retain_graph=True)


def log_sigmoid_of_a_transposed_input():
    """Its gradient has the layout of an empty tensor like the gradient that it gets."""
    x = made(4, 8, 64, 8).transpose(1, 2).requires_grad_()
    for given in (torch.ones(1, device="cuda").expand(4, 64, 8, 8), made(4, 64, 8, 8)):
        torch.autograd.grad(F.logsigmoid(x), x, given)[0].contiguous()


def samples_of_distributions_without_a_closed_form():
    """The results are contiguous; the sums of Dirichlet's samples are temporary."""
    for x in (
        *(made(8, 100), made(100, 8).t(), made(8, 200)[:, ::2], made(1, 100).expand(8, 100)),
        *(made(8, 100, dtype=torch.half), made(200_000), made(70_000, 3), made(0, 3)),
    ):
        torch.poisson(x).view(-1)
        torch.binomial(x, x).view(-1)
        torch._standard_gamma(x).view(-1)
        torch.ops.aten._standard_gamma_grad(x, x).view(-1)
        torch._sample_dirichlet(x).view(-1)
    torch.distributions.Dirichlet(
        made(70, 300, grad=True), validate_args=False
    ).rsample().sum().backward()


def outer_products_into_a_target():
    """They use cuBLAS, which copies what it cannot read; without ``out=`` they do not."""
    left, right = torch.empty_strided((2, 4, 1), (1, 2, 8), device="cuda"), made(2, 1, 4)
    for target in (made(0), made(2, 4, 4)):
        torch.bmm(left, right, out=target)
        torch.matmul(left, right, out=target)
    torch.bmm(left, right)


def layouts_of_parts_of_complex_numbers():
    """Each result is kept, with a tensor whose size tells its strides."""
    kept = []
    for x in (
        made(2, 4, 6, 8, dtype=torch.complex64).to(memory_format=torch.channels_last),
        made(8, 6, 4, 2, dtype=torch.complex64).permute(3, 2, 1, 0),
        made(2, 4, 6, 16, dtype=torch.complex64)[..., :8],
    ):
        for function in (torch.angle, torch.isinf):
            result = function(x)
            strides = sum((dim + 1) * stride for dim, stride in enumerate(result.stride()))
            kept += [result, made(strides)]


def writes_into_copies_of_parts():
    whole = made(4, 8, 6, 8).to(memory_format=torch.channels_last)
    part, rows = whole[:, :4], made(8, 6)[::2]
    filled = part.index_fill(0, indices(2), 1.0)
    filled.view(-1) if filled.is_contiguous() else made(filled.stride(0))
    for x in (rows, made(4, 12)[:, ::2], made(1, 6).expand(4, 6), made(6, 4).mT):
        x.index_put((indices(2),), made(2, 6), accumulate=True)


def powers_of_one_base():
    for x in (made(8, 6)[::2], made(1, 6).expand(4, 6), made(4, 6), made(4, 6).int()):
        torch._foreach_pow(2, [x, x])
        torch._foreach_pow(1, [x])


def bags_of_transposed_indices():
    """``embedding_bag`` lets go of the indices that it copies."""
    F.embedding_bag(indices(200, 3).mT, made(5, 6))
    F.embedding_bag(indices(200, 3).mT.clone(memory_format=torch.contiguous_format), made(5, 6))


def targets_without_elements_again():
    """Each call resizes its targets, however often it was made."""
    x, kept = made(4, 6), []
    for _ in range(3):
        for function in (torch.topk, torch.max):
            targets = made(0), indices(0)
            kept += function(x, 1, out=targets)


def images_normalized_by_cudnn_in_evaluation():
    """cuDNN takes no workspace there; the backward pass is PyTorch's own."""
    norm = torch.nn.BatchNorm2d(24, device="cuda").eval()
    x = made(4, 24, 9, 7, grad=True)
    norm(norm(x).relu()).square().sum().backward()
    images = made(4, 24, 9, 7).to(memory_format=torch.channels_last).requires_grad_()
    norm.requires_grad_(False)(images).sum().backward()
    with torch.inference_mode():
        norm(made(24, 4, 9, 7).transpose(0, 1))
        torch.nn.BatchNorm1d(24, device="cuda").eval()(made(4, 24, 50, dtype=torch.float16))


PROGRAMS = listed(globals())
