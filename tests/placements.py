"""Programs that have tensors on the host and on the device, and what they need on the device.

The numbers are those of the null device, as an A100-80GB; tests/null/test_placements.py holds them
to it.
"""

import torch
from torch import nn


def cast_on_the_way():
    return torch.randn(16, 256).half().to("cuda")


def model_made_on_the_host():
    layers = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8)))
    return layers.to("cuda", torch.bfloat16)


def mask_made_on_the_host():
    mask = torch.ones(1024, 1024).tril()
    scores = torch.ones(1024, 1024, device="cuda")
    return scores + mask.to("cuda")


def never_moved():
    torch.randn(512, 512)
    return torch.zeros(8, device="cuda")


def host_by_name():
    x = torch.randn(64, 64, device="cpu")
    y = (x @ x).softmax(-1)
    return y.to("cuda") * 2


def there_and_back():
    x = torch.ones(256, 256, device="cuda")
    kept = x.cpu()
    del x
    doubled = kept * 2 + torch.ones(256, 256)
    return doubled.cuda() + 1


def attention_on_the_host():
    q = torch.randn(1, 2, 512, 64)
    out = nn.functional.scaled_dot_product_attention(q, q, q)
    return out.to("cuda").exp()


def trained_on_the_host():
    layer = nn.Linear(64, 64)
    layer(torch.randn(8, 64)).sum().backward()
    return layer.weight.grad.cuda()


def block_of_device():
    with torch.device("cuda"):
        inside = torch.ones(128, 128)
    outside = torch.ones(128, 128)
    return inside, outside


def like_its_input():
    x = torch.ones(64, 64, device="cuda")
    bias = torch.arange(64, device=x.device)
    host = torch.arange(4096)
    return x + bias, host


def data_moved():
    table = torch.Tensor([1.0, 2.0, 3.0])
    more = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    return table.cuda() * 2, more.to("cuda") + 1


def number():
    return torch.ones(64, device="cuda") * torch.tensor(2.0)


def as_the_other():
    x = torch.ones(32, 32, device="cuda")
    return torch.ones(32, 32).to(x) * torch.as_tensor(x)


def saved_on_the_host():
    x = torch.ones(256, 256, device="cuda", requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        y = (x * x).exp()
    y.sum().backward()
    return x.grad


def hook_of_the_host():
    x = torch.ones(64, 64, device="cuda", requires_grad=True)
    kept = []

    def pack(tensor):
        kept.append(torch.ones(4096))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return x * x


#: Program → the most bytes requested on the device, and those alive at the end.
NEEDED = {
    cast_on_the_way: (8_192, 8_192),
    model_made_on_the_host: (1_052_672, 1_052_672),
    mask_made_on_the_host: (12_582_912, 4_194_304),
    never_moved: (32, 32),
    host_by_name: (32_768, 16_384),
    there_and_back: (524_288, 262_144),
    attention_on_the_host: (524_288, 262_144),
    trained_on_the_host: (16_384, 16_384),
    block_of_device: (65_536, 65_536),
    like_its_input: (33_280, 16_384),
    data_moved: (44, 28),
    number: (512, 256),
    as_the_other: (12_288, 4_096),
    saved_on_the_host: (1_835_016, 262_144),
    hook_of_the_host: (32_768, 32_768),
}
