"""Programs of the device's first probe, which no other list of programs has."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def made(*shape, grad=True, **options):
    return torch.randn(*shape, device="cuda", requires_grad=grad, **options)


def without_cudnn():
    return torch.backends.cudnn.flags(enabled=False)


@program
def flash_causal():
    q, k, v = (made(2, 16, 4096, 64, dtype=torch.bfloat16) for _ in range(3))
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()


@program
def autocast_step():
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 10))
    model.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    target = torch.zeros(64, dtype=torch.long, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(made(64, 256, grad=False)), target)
    loss.backward()
    optimizer.step()


@program
def scaled_steps():
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.Linear(64, 8)).to("cuda")
    optimizer, scaler = torch.optim.Adam(model.parameters()), torch.amp.GradScaler("cuda")
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(made(16, 64, grad=False)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return loss.item()


@program
def encoder():
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, batch_first=True)
    nn.TransformerEncoder(layer, 2).to("cuda")(made(4, 50, 128)).mean().backward()


@program
def recurrent_network():
    with without_cudnn():
        network = nn.LSTM(32, 64, 2, batch_first=True).to("cuda")
        network(made(4, 10, 32))[0].sum().backward()


@program
def gated_network():
    with without_cudnn():
        nn.GRU(32, 64, 1).to("cuda")(made(10, 4, 32))[0].sum().backward()


@program
def bag_of_embeddings():
    bag = nn.EmbeddingBag(100, 16).to("cuda")
    bag(torch.zeros(8, 4, dtype=torch.long, device="cuda")).sum().backward()


@program
def checkpointed_blocks():
    blocks = [nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(8)]
    model = nn.Sequential(*blocks).to("cuda")
    checkpoint_sequential(model, 4, made(512, 256), use_reentrant=False).sum().backward()


@program
def gradients_by_sample():
    model = nn.Linear(64, 64).to("cuda")
    weights = dict(model.named_parameters())

    def loss(weights, x):
        return torch.func.functional_call(model, weights, (x,)).sum()

    torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, made(16, 64, grad=False))


@program
def hessian():
    torch.func.hessian(lambda x: (x**3).sum())(made(20, grad=False))


@program
def scripted():
    def gelu(x):
        return torch.nn.functional.gelu(x * 2) + x

    scripted = torch.jit.script(gelu)
    for _ in range(3):
        scripted(made(256, 256)).sum().backward()


@program
def window_and_draws():
    torch.kaiser_window(400, device="cuda")
    torch.multinomial(torch.rand(8, 100, device="cuda"), 4)


@program
def bilinear():
    layer = nn.Bilinear(20, 30, 40).to("cuda")
    layer(made(128, 20), made(128, 30)).sum().backward()


@program
def written_view():
    y = made(640, 10) * 1
    y[0].mul_(2)
    y.sum().backward()


@program
def efficient_with_gradients():
    q, k, v = (made(2, 4, 256, 64) for _ in range(3))
    F.scaled_dot_product_attention(q, k, v).sum().backward()


@program
def convolutions():
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3)).to("cuda")
    model(made(4, 3, 32, 32)).mean().backward()


@program
def read_and_branch():
    x = made(64, 64, grad=False)
    for _ in range(3):
        x = x * 2 if x.sum().item() > 0 else torch.cat([x, x])
    return x[x > 0]


@program
def greedy_tokens():
    embedding, head = nn.Embedding(50, 32).to("cuda"), nn.Linear(32, 50).to("cuda")
    tokens = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    for _ in range(8):
        token = head(embedding(tokens).mean(1)).argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, token], 1)
        if (token == 7).all():
            break
    return tokens


@program
def copied_model():
    import copy

    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64)).to("cuda").eval()
    return copy.deepcopy(model)(made(8, 64, grad=False))


@program
def saved_and_loaded():
    import io

    model, file = nn.Linear(64, 64).to("cuda"), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file, map_location="cuda"))
    return model(made(8, 64, grad=False))


@program
def resized_storage():
    x = made(1024, 1024, grad=False)
    x.untyped_storage().resize_(0)
    y = made(512, 1024, grad=False)
    x.untyped_storage().resize_(1024 * 1024 * 4)
    return x, y


@program
def side_stream():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = made(512, 512, grad=False)
        y = x @ x
    torch.cuda.current_stream().wait_stream(stream)
    y.record_stream(torch.cuda.current_stream())
    return y + 1


@program
def unpacked_bits():
    x = torch.arange(64, device="cuda", dtype=torch.uint8)
    shifts = torch.arange(0, 8, 4, device="cuda", dtype=torch.uint8)
    return (x[:, None] >> shifts) & 15


@program
def warned_flash():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        q, k, v = (made(2, 4, 512, 64, dtype=torch.float16) for _ in range(3))
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


@program
def more_elements_than_an_int():
    return torch.empty(2**31 + 8, dtype=torch.int8, device="cuda").cumsum(0, dtype=torch.int8)


@program
def fused_optimizer():
    model = nn.Linear(256, 256).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(2):
        optimizer.zero_grad()
        model(made(8, 256, grad=False)).sum().backward()
        optimizer.step()
