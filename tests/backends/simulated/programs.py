"""Programs for a CUDA device, whose peaks are recorded in ``tests/data/cuda/programs.json``.

Each runs once, from an emptied allocator on: inputs, parameters and workspaces are inside. Values
are never looked at. One says much in a line, as a table would.
"""

import contextlib
import itertools
from functools import partial

import torch
import torch.nn.functional as F
from listed_programs import listed
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from pytest_attnmem.kernels import KERNELS

PROGRAMS = {}


def made(*shape, grad=True, dtype=torch.float32):
    return torch.empty(*shape, device="cuda", dtype=dtype, requires_grad=grad)


def places(*shape):
    return torch.zeros(shape, dtype=torch.long, device="cuda")


def summed(function, *inputs):
    """Runs a function, and backward from the sum of its result."""
    function(*inputs).sum().backward()


def wide_softmax(dtype):
    x = made(64, 512, dtype=dtype)
    F.softmax(x, -1, dtype=torch.float32).to(dtype).sum().backward()


def one_step(optimizer, **options):
    m = nn.Linear(64, 64, device="cuda")
    o = optimizer(m.parameters(), **options)
    m(made(4, 64)).sum().backward()
    o.step()


def log_softmax_ce():
    x = made(512, 1000)
    t = places(512)
    F.cross_entropy(x, t).backward()


def double_backward():
    x = made(128, 128)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.pow(2).sum().backward()


def acc_shared():
    x = made(512, 512)
    y = (x @ x) + (x * 2) * (x * 3)
    y.sum().backward()


def no_name_temps():
    x = made(256, 256)
    ((x @ x).relu() @ (x @ x).sigmoid()).mean().backward()


def grad_twice():
    x = made(256, 256)
    for _ in range(2):
        (x * x).sum().backward()


def views():
    x = made(64, 64, 32)
    y = x.transpose(0, 1).reshape(64, -1)
    z = y.view(64, 64, 32)[:, ::2].contiguous()
    z.sum().backward()


def out_variant():
    a = made(256, 256, grad=False)
    b = torch.empty(256, 256, device="cuda")
    torch.add(a, a, out=b)
    c = torch.empty(0, device="cuda")
    torch.mul(a, a, out=c)


def resize():
    a = torch.empty(0, device="cuda")
    a.resize_(1000)
    a.resize_(5000)
    a.resize_(10)


def set_():
    a = made(100, grad=False)
    b = made(5000, grad=False)
    a.set_(b)
    del b
    a[:10].clone()
    del a


def opt(cls, **k):
    m = nn.Sequential(nn.Linear(64, 256, device="cuda"), nn.Linear(256, 64, device="cuda"))
    o = cls(m.parameters(), **k)
    x = made(128, 64, grad=False)
    for _ in range(2):
        m(x).sum().backward()
        o.step()
        o.zero_grad()


PROGRAMS |= {
    "adamw": partial(opt, torch.optim.AdamW),
    "adamw_loop": partial(opt, torch.optim.AdamW, foreach=False),
    "adamw_fused": partial(opt, torch.optim.AdamW, fused=True),
    "sgd_m": partial(opt, torch.optim.SGD, lr=0.1, momentum=0.9),
    "adam_cap": partial(opt, torch.optim.Adam, capturable=True),
}


def ck(re, rng):
    w = made(256, 256)
    x = made(512, 256)
    y = x
    for _ in range(3):
        y = checkpoint(
            *(lambda x: F.dropout(F.gelu(x @ w), 0.1), y),
            use_reentrant=bool(re),
            preserve_rng_state=bool(rng),
        )
    y.sum().backward()


for re, rng in itertools.product((0, 1), (0, 1)):
    PROGRAMS[f"ckpt_{re}{rng}"] = partial(ck, re, rng)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        gx = g @ w.t()
        gw = x.t() @ g
        return gx + gx * 0, gw


def hooks():
    x = made(256, 256)
    y = x * 2
    y.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 2)
    (y * 3).sum().backward()


def autocast_mlp():
    m = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 64)).cuda()
    x = made(1024, 64)
    with torch.autocast("cuda"):
        y = m(x)
        z = y.softmax(-1)
    assert (y.dtype, z.dtype) == (torch.float16, torch.float32)
    z.sum().backward()


def autocast_bf16_attn():
    q, k, v = [made(2, 4, 256, 64) for _ in range(3)]
    with torch.autocast("cuda", dtype=torch.bfloat16):
        o = (q @ k.mT).softmax(-1) @ v
    o.float().sum().backward()


def encoder(dtype=torch.float32, trains=True, backends=()):
    options = {"batch_first": True, "device": "cuda", "dtype": dtype}
    m = nn.TransformerEncoderLayer(64, 4, 128, **options).train(trains)
    x = made(2, 128, 64, dtype=dtype, grad=trains)
    with (
        sdpa_kernel([*backends]) if backends else contextlib.nullcontext(),
        torch.set_grad_enabled(trains),
    ):
        if trains:
            m(x).sum().backward()
        else:
            m(x)


PROGRAMS |= {
    "encoder_train": lambda: encoder(backends=[SDPBackend.MATH]),
    "encoder_eff": lambda: encoder(),
    "encoder_half": lambda: encoder(torch.float16),
    "encoder_eval": lambda: encoder(trains=False),
}


def sd(backend=None, dtype=torch.float32, mask=None, heads=4, grad=True, d=64, **options):
    q = made(2, 4, 256, d, dtype=dtype, grad=grad)
    k, v = (made(2, heads, 256, d, dtype=dtype, grad=grad) for _ in range(2))
    if mask == "bool":
        mask = torch.ones(256, 256, dtype=torch.bool, device="cuda").tril()
    if mask == "float":
        mask = torch.zeros(2, 4, 256, 256, dtype=dtype, device="cuda")
    with sdpa_kernel(getattr(SDPBackend, backend)) if backend else contextlib.nullcontext():
        o = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=heads != 4, **options)
    if grad:
        o.backward(torch.empty_like(o))


PROGRAMS |= {
    "math": partial(sd, "MATH"),
    "math_half": partial(sd, "MATH", torch.float16),
    "math_causal": partial(sd, "MATH", is_causal=True),
    "math_bool": partial(sd, "MATH", mask="bool"),
    "math_float": partial(sd, "MATH", mask="float"),
    "math_gqa": partial(sd, "MATH", heads=2),
    "math_nograd": partial(sd, "MATH", grad=False, mask="float"),
    "math_drop": partial(sd, "MATH", dropout_p=0.1),
    "sdpa_auto_half": partial(sd, dtype=torch.float16),
    "sdpa_auto_mask": partial(sd, dtype=torch.float16, mask="bool"),
    "sdpa_auto_fp32": sd,
    "sdpa_d60": partial(sd, dtype=torch.float16, d=60),
    "sdpa_gqa": partial(sd, dtype=torch.float16, heads=2, is_causal=True),
}


def chosen(zero):
    x = made(256, 256)
    torch.where(x > 0, x, zero()).sum().backward()


def cat_stack():
    x, y = made(256, 256), made(256, 256)
    torch.cat([x, y], 1).sum().backward()
    torch.stack([x, y]).sum().backward()


def norm_clip():
    m = nn.Linear(256, 256, device="cuda")
    m(made(64, 256)).sum().backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)


def scaler():
    m = nn.Linear(64, 64, device="cuda")
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    s = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda"):
        loss = m(made(32, 64)).float().sum()
    s.scale(loss).backward()
    s.step(o)
    s.update()


def offload():
    x = made(512, 512)
    with torch.autograd.graph.save_on_cpu():
        y = (x * 2).exp()
    y.sum().backward()


def side_stream():
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        x = made(512, 512)
        y = x @ x
    torch.cuda.current_stream().wait_stream(s)
    (y * 2).sum()


def cpu_moved():
    x = torch.ones(256, 256).cuda()
    torch.arange(1000).to("cuda")
    z = x.cpu()
    z.to("cuda")


def inference():
    with torch.inference_mode():
        x = made(8, 32, 64, grad=False)
        layer = nn.Linear(64, 64, device="cuda")
        layer(x.transpose(0, 1))
        F.scaled_dot_product_attention(x[None], x[None], x[None])


def nograd_loop():
    with torch.no_grad():
        x = made(512, 512, grad=False)
        for _ in range(5):
            x = F.gelu(x @ x)


def expand_grad():
    b = made(256)
    x = made(64, 16, 256)
    (x + b).sum().backward()
    (x * b).sum().backward()


def rope():
    x = made(2, 8, 128, 64, dtype=torch.bfloat16)
    c = made(128, 64, grad=False, dtype=torch.bfloat16)
    r = torch.cat((-x[..., 32:], x[..., :32]), -1)
    (x * c + r * c).sum().backward()


def gpt_block():
    m = nn.ModuleDict(
        {
            "ln": nn.LayerNorm(64),
            "qkv": nn.Linear(64, 192),
            "o": nn.Linear(64, 64),
            "f": nn.Linear(64, 256),
            "g": nn.Linear(256, 64),
        }
    ).cuda()
    x = made(2, 128, 64)
    q, k, v = [t.view(2, 128, 4, 16).transpose(1, 2) for t in m["qkv"](m["ln"](x)).split(64, 2)]
    a = (
        (q @ k.mT / 4)
        .masked_fill(torch.ones(128, 128, dtype=torch.bool, device="cuda").triu(1), -1e9)
        .softmax(-1)
    )
    y = x + m["o"]((a @ v).transpose(1, 2).reshape(2, 128, 64))
    y = y + m["g"](F.gelu(m["f"](y)))
    y.mean().backward()


def swiglu_bf16():
    w1, w2, w3 = (
        made(64, 256, dtype=torch.bfloat16),
        made(64, 256, dtype=torch.bfloat16),
        made(256, 64, dtype=torch.bfloat16),
    )
    x = made(4, 128, 64, dtype=torch.bfloat16)
    ((F.silu(x @ w1) * (x @ w2)) @ w3).float().pow(2).mean().backward()


def mha_causal_mask():
    m = nn.MultiheadAttention(64, 4, batch_first=True, device="cuda")
    x = made(2, 128, 64)
    mask = nn.Transformer.generate_square_subsequent_mask(128, device="cuda")
    m(x, x, x, need_weights=False, attn_mask=mask)[0].sum().backward()


def accum_steps():
    m = nn.Linear(64, 64, device="cuda")
    for _ in range(3):
        m(made(32, 64, grad=False)).pow(2).sum().backward()


def retain():
    x = made(256, 256)
    y = (x * 2).exp()
    y.sum().backward(retain_graph=True)
    y.sum().backward()


def default_device():
    with torch.device("cuda"):
        x = torch.ones(256, 256)
        layer = nn.Linear(256, 256)
        layer(x).sum().backward()


def from_cpu_list():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")
    y = torch.arange(1000, device="cuda").float()
    (x @ x).sum()
    y.sum()


PROGRAMS |= {
    "linear3_noncontig": lambda: summed(
        nn.Linear(64, 128, device="cuda"), made(8, 32, 64).transpose(0, 1)
    ),
    "linear3": lambda: summed(nn.Linear(64, 128, device="cuda"), made(8, 32, 64)),
    "linear4_nobias": lambda: summed(
        nn.Linear(64, 128, bias=False, device="cuda"), made(2, 8, 32, 64)
    ),
    "dropout": lambda: F.dropout(made(512, 512), 0.1).sum().backward(),
    "dropout_eval": lambda: F.dropout(made(512, 512), 0.1, training=False).mul(2).sum().backward(),
    "softmax_dtype": lambda: wide_softmax(torch.float16),
    "softmax_dtype_bf16": lambda: wide_softmax(torch.bfloat16),
    "layernorm": lambda: summed(nn.LayerNorm(256, device="cuda"), made(512, 256)),
    "layernorm_half": lambda: summed(
        nn.LayerNorm(256, device="cuda", dtype=torch.float16), made(512, 256, dtype=torch.float16)
    ),
    "rmsnorm": lambda: summed(nn.RMSNorm(256, device="cuda"), made(512, 256)),
    "embedding": lambda: summed(nn.Embedding(1000, 64, device="cuda"), places(8, 128)),
    "mlp": lambda: summed(
        nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).cuda(), made(1024, 64)
    ),
    "maxdim": lambda: made(256, 512).max(-1).values.sum().backward(),
    "gather": lambda: summed(torch.gather, made(256, 512), 1, places(256, 3)),
    "index": lambda: summed(lambda x, i: x[i], made(256, 512), places(10)),
    "index_select": lambda: summed(torch.index_select, made(256, 512), 0, places(10)),
    "einsum": lambda: summed(
        partial(torch.einsum, "bnhd,bmhd->bhnm"), made(2, 64, 4, 32), made(2, 64, 4, 32)
    ),
    "cumsum": lambda: made(2, 4, 256, 64).cumsum(2).sum().backward(),
    "silu": lambda: F.silu(made(256, 512)).sum().backward(),
    "mish": lambda: F.mish(made(256, 512)).sum().backward(),
    "rms_half": lambda: summed(nn.RMSNorm(256, device="cuda"), made(512, 256, dtype=torch.float16)),
    "decoder": lambda: summed(
        nn.TransformerDecoderLayer(64, 4, 128, batch_first=True, device="cuda"),
        *(made(2, 16, 64), made(2, 32, 64)),
    ),
    "transformer": lambda: summed(
        nn.Transformer(32, 2, 1, 1, 64, batch_first=True, device="cuda"),
        *(made(2, 16, 32), made(2, 8, 32)),
    ),
    "copy_half": lambda: summed(nn.Linear(64, 64).cuda().half(), made(4, 64, dtype=torch.float16)),
    "weight_norm": lambda: summed(
        nn.utils.parametrizations.weight_norm(nn.Linear(64, 64)).cuda(), made(4, 64)
    ),
    "spectral": lambda: torch.linalg.vector_norm(made(64, 64)).backward(),
    "where_scalar": partial(chosen, lambda: torch.tensor(0.0)),
    "where_t": partial(chosen, lambda: torch.tensor(0.0, device="cuda")),
    "tied": lambda: summed(lambda w, t: F.embedding(t, w) @ w.t(), made(500, 64), places(4, 32)),
    "seq_ckpt": lambda: summed(
        lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=False),
        nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(4)]).cuda(),
        made(32, 64),
    ),
    "sdpa_causal_half_long": lambda: summed(
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        made(1, 2, 1000, 64, dtype=torch.bfloat16),
    ),
    "arange_pos": lambda: summed(
        lambda e, places: e(places)[None].expand(4, -1, -1),
        *(nn.Embedding(128, 64, device="cuda"), torch.arange(100, device="cuda")),
    ),
    "mha_need_weights": lambda: summed(
        lambda m, x: m(x, x, x)[0],
        *(nn.MultiheadAttention(64, 4, batch_first=True, device="cuda"), made(2, 128, 64)),
    ),
    "acc_three": lambda: summed(lambda h: h * 2 + h * 3 + h.exp(), made(256, 256) * 1),
    "amax_bcast": lambda: summed(
        lambda x: (x - x.amax(-1, keepdim=True)).exp().sum(-1).log(), made(64, 256, 256)
    ),
    "custom_fn": lambda: summed(
        lambda x, w: Product.apply(x, w) * 2, made(256, 256), made(256, 256)
    ),
    "rsqrt": lambda: summed(
        lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), made(64, 64)
    ),
    "tanh_sig": lambda: summed(
        lambda x: x.tanh() * x.sigmoid() * F.softplus(x) * F.leaky_relu(x), made(64, 64)
    ),
    "masked_scatter_where": lambda: summed(lambda x: torch.where(x > 0, x, x * 2), made(64, 64)),
    "tril_mask": lambda: summed(
        lambda m, x: (x + m).softmax(-1),
        *(torch.full((64, 64), float("-inf"), device="cuda").triu(1), made(4, 64, 64)),
    ),
    "masked": lambda: summed(
        lambda x, m: x.masked_fill(m, float("-inf")).softmax(-1),
        *(made(4, 256, 256), torch.ones(256, 256, dtype=torch.bool, device="cuda").triu(1)),
    ),
    "unbind": lambda: summed(torch.mul, *made(64, 2, 32).unbind(1)),
    "chunk_cat": lambda: summed(lambda a, b, c: a * b + c, *made(64, 96).chunk(3, -1)),
    "vmap": lambda: summed(torch.vmap(lambda a, b: a @ b), made(4, 32, 32), made(4, 32, 32)),
    "func_grad": lambda: torch.func.grad(lambda a: (a @ a).sum())(made(64, 64, grad=False)),
    "clone_detach": lambda: summed(lambda x: x.detach().clone().requires_grad_() * x, made(64, 64)),
    "parameter_scalar": lambda: summed(
        lambda s, x: x * s, nn.Parameter(torch.ones([], device="cuda")), made(256, 256)
    ),
    "topk": lambda: made(64, 1000).topk(10).values.sum().backward(),
    "sort": lambda: made(64, 1000).sort(-1).values.sum().backward(),
    "argmax": lambda: made(64, 1000, grad=False).argmax(-1),
    "std": lambda: made(64, 256).std(-1).sum().backward(),
    "var_mean": lambda: made(64, 256).var(-1, correction=0).sum().backward(),
    "norm": lambda: made(64, 256).norm(dim=-1).sum().backward(),
    "logsumexp": lambda: made(64, 256).logsumexp(-1).sum().backward(),
    "prod": lambda: made(64, 256).prod(-1).sum().backward(),
    "cumprod": lambda: made(8, 16).cumprod(-1).sum().backward(),
    "pad": lambda: F.pad(made(4, 8, 8), (1, 2, 3, 4)).sum().backward(),
    "roll": lambda: made(64, 64).roll(1, 0).sum().backward(),
    "flip": lambda: made(64, 64).flip(0).sum().backward(),
    "repeat": lambda: made(64, 64).repeat(2, 3).sum().backward(),
    "repeat_interleave": lambda: made(2, 4, 64, 16).repeat_interleave(2, 1).sum().backward(),
    "expand_contig": lambda: made(2, 1, 64, 16).expand(2, 4, 64, 16).contiguous().sum().backward(),
    "unfold": lambda: made(4, 64, 16).unfold(1, 8, 4).sum().backward(),
    "scatter": lambda: made(64, 64).scatter(1, places(64, 3), 1.0).sum().backward(),
    "index_add": lambda: (
        made(64, 64, grad=False).index_add(0, places(3), made(3, 64)).sum().backward()
    ),
    "clampmin": lambda: made(64, 64).clamp(min=0).sum().backward(),
    "maximum": lambda: torch.maximum(made(64, 64), made(64, 64)).sum().backward(),
    "minimum": lambda: torch.minimum(made(64, 64), made(64, 64)).sum().backward(),
    "fmax": lambda: torch.fmax(made(64, 64), made(64, 64)).sum().backward(),
    "clamped_by_two_tensors": lambda: (
        torch.clamp(made(64, 64), made(64, 64), made(64, 64)).sum().backward()
    ),
    "addmm": lambda: torch.addmm(made(64), made(32, 64), made(64, 64)).sum().backward(),
    "baddbmm": lambda: (
        torch.baddbmm(made(4, 32, 32), made(4, 32, 16), made(4, 16, 32)).sum().backward()
    ),
    "mv": lambda: (made(64, 64) @ made(64)).sum().backward(),
    "dot": lambda: (made(64) @ made(64)).backward(),
    "outer": lambda: torch.outer(made(64), made(32)).sum().backward(),
    "mse": lambda: F.mse_loss(made(64, 64), made(64, 64, grad=False)).backward(),
    "bce": lambda: F.binary_cross_entropy_with_logits(
        made(64, 64), made(64, 64, grad=False)
    ).backward(),
    "ce_smooth": lambda: F.cross_entropy(made(64, 100), places(64), label_smoothing=0.1).backward(),
    "kl": lambda: F.kl_div(
        made(64, 64).log_softmax(-1), made(64, 64, grad=False), reduction="batchmean"
    ).backward(),
    "groupnorm": lambda: nn.GroupNorm(4, 16, device="cuda")(made(4, 16, 8)).sum().backward(),
    "celu": lambda: (F.elu(made(64, 64)) + 1).sum().backward(),
    "glu": lambda: F.glu(made(64, 64)).sum().backward(),
    "rmsprop": lambda: one_step(torch.optim.RMSprop),
    "adagrad": lambda: one_step(torch.optim.Adagrad),
    "amsgrad": lambda: one_step(torch.optim.AdamW, amsgrad=True),
    "lr_tensor": lambda: one_step(torch.optim.AdamW, lr=torch.tensor(1e-3)),
    "onehot": lambda: F.one_hot(places(10), num_classes=5).float().sum(),
}


def clamped_by_one_tensor():
    torch.clamp(made(64, 64), max=made(64, 64)).sum().backward()
    torch.clamp_min(made(64, 64), made(64, 64)).sum().backward()


def minmax():
    x = made(64, 64)
    x.max().backward()
    x.amin(0).sum().backward()


def complex_rope():
    x = made(2, 16, 4, 8)
    c = torch.view_as_complex(x.reshape(2, 16, 4, 4, 2))
    f = torch.polar(torch.ones(16, 4, device="cuda"), torch.ones(16, 4, device="cuda"))
    torch.view_as_real(c * f[None, :, None]).flatten(3).sum().backward()


def kv_cache():
    with torch.no_grad():
        k = torch.zeros(1, 4, 128, 16, device="cuda")
        for i in range(5):
            k[:, :, i : i + 1] = torch.ones(1, 4, 1, 16, device="cuda")
            (torch.ones(1, 4, 1, 16, device="cuda") @ k[:, :, : i + 1].mT).softmax(-1)


def kv_cat():
    with torch.no_grad():
        k = torch.zeros(1, 4, 1, 16, device="cuda")
        for _i in range(5):
            k = torch.cat([k, torch.ones(1, 4, 1, 16, device="cuda")], 2)


def setitem_grad():
    x = made(64, 64)
    y = x * 1
    y[:, :3] = 0
    y[0] = x[1]
    y.sum().backward()


def ckpt_autocast():
    layer = nn.Linear(64, 64, device="cuda")
    x = made(32, 64)
    with torch.autocast("cuda"):
        y = checkpoint(lambda t: F.gelu(layer(t)), x, use_reentrant=False)
    y.float().sum().backward()


def autocast_block():
    m = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, device="cuda")
    x = made(2, 128, 64)
    with torch.autocast("cuda", torch.bfloat16):
        y = m(x)
    y.float().sum().backward()


def sgd_nesterov():
    m = nn.Linear(64, 64, device="cuda")
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)
    for _ in range(2):
        m(made(4, 64)).sum().backward()
        o.step()
        o.zero_grad(set_to_none=False)


def scheduler():
    m = nn.Linear(64, 64, device="cuda")
    o = torch.optim.AdamW(m.parameters())
    s = torch.optim.lr_scheduler.CosineAnnealingLR(o, 10)
    m(made(4, 64)).sum().backward()
    o.step()
    s.step()


def ema():
    m = nn.Linear(64, 64, device="cuda")
    e = torch.optim.swa_utils.AveragedModel(m)
    e.update_parameters(m)


def jvp_like():
    x = made(64, 64)
    (g,) = torch.autograd.grad(x.exp().sum(), x)
    (g * 2).sum()


def alibi():
    d = torch.arange(64, device="cuda")[None] - torch.arange(64, device="cuda")[:, None]
    s = torch.tensor([2**-i for i in range(4)], device="cuda")
    q = made(2, 4, 64, 16)
    ((q @ q.mT) + d * s[:, None, None]).softmax(-1).sum().backward()


def xent_bf16():
    logits = made(4, 64, 500, dtype=torch.bfloat16)
    t = places(4, 64)
    F.cross_entropy(logits.float().view(-1, 500), t.view(-1), ignore_index=-100).backward()


def sum_into():
    x, wide = made(8192, 64, grad=False), made(64, 3, grad=False)
    torch.sum(x, 0, out=wide[:, 1])
    torch.sum(x, 1, out=made(0, grad=False))
    torch.amax(x, 0, keepdim=True, out=made(0, grad=False))


def transposed(loss, *layers, dtype=torch.float16):
    """Layers over transposed features: the backward of the first norm copies its gradient."""
    y = nn.LayerNorm(96, device="cuda", dtype=dtype)(made(2, 100, 96, dtype=dtype)).transpose(1, 2)
    for make in layers:
        y = make().to("cuda", dtype)(y)
    loss(y, torch.zeros_like(y)).backward()


for name, loss, *layers in (
    ("mse", F.mse_loss),
    ("smooth_l1", F.smooth_l1_loss),
    ("huber", F.huber_loss),
    ("bce", lambda y, target: F.binary_cross_entropy(y.sigmoid(), target)),
    ("batch_norm", F.mse_loss, partial(nn.BatchNorm1d, 96)),
    ("evaluated_batch_norm", F.mse_loss, lambda: nn.BatchNorm1d(96).eval()),
    ("log_softmax", F.mse_loss, partial(nn.LogSoftmax, -1)),
    ("layer_norm", F.mse_loss, partial(nn.LayerNorm, 100)),
):
    PROGRAMS[f"transposed_{name}"] = partial(transposed, loss, *layers)


def encoded(dtype, width, **options):
    """One layer in evaluation, whose attention may be fused, and attention with its weights."""
    options |= {"batch_first": True, "device": "cuda", "dtype": dtype}
    x = made(2, 300, width, grad=False, dtype=dtype)
    with torch.no_grad():
        nn.TransformerEncoderLayer(width, 4, 2 * width, **options).eval()(x)


def attended(dtype, width, average):
    x = made(2, 300, width, grad=False, dtype=dtype)
    m = nn.MultiheadAttention(width, 4, batch_first=True, device="cuda", dtype=dtype).eval()
    with torch.no_grad():
        m(x, x, x, average_attn_weights=average)


for dtype in (torch.float32, torch.float16, torch.bfloat16):
    for width in (16, 96):
        name = f"{str(dtype).removeprefix('torch.')}_{width}"
        PROGRAMS[f"encoder_{name}"] = partial(encoded, dtype, width)
        PROGRAMS[f"encoder_normed_{name}"] = partial(
            encoded, dtype, width, norm_first=True, activation="gelu"
        )
        PROGRAMS[f"attention_weights_{name}"] = partial(attended, dtype, width, width == 16)


def masked_encoder(dtype, length, masks):
    """Two layers in evaluation with masks; the softmax of long rows, or of a view, takes more."""
    options = {"batch_first": True, "device": "cuda", "dtype": dtype}
    layer = nn.TransformerEncoderLayer(64, 4, 128, **options)
    x = made(2, length, 64, grad=False, dtype=dtype)
    given = {}
    if "padding" in masks:
        given["src_key_padding_mask"] = torch.zeros(2, length, dtype=torch.bool, device="cuda")
    if "causal" in masks:
        given["mask"] = torch.ones(length, length, dtype=torch.bool, device="cuda").triu(1)
    elif "added" in masks:
        given["mask"] = nn.Transformer.generate_square_subsequent_mask(length, device="cuda")
    with torch.no_grad():
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()(x, **given)


def masked_attention(dtype, length, average):
    x = made(2, length, 64, grad=False, dtype=dtype)
    m = nn.MultiheadAttention(64, 4, batch_first=True, device="cuda", dtype=dtype).eval()
    mask = torch.ones(length, length, dtype=torch.bool, device="cuda").triu(1)
    with torch.no_grad():
        m(x, x, x, attn_mask=mask, average_attn_weights=average)


for dtype in (torch.float32, torch.float16):
    for length in (300, 1100):
        name = f"{str(dtype).removeprefix('torch.')}_{length}"
        for masks in (("padding",), ("added",), ("padding", "causal")):
            PROGRAMS[f"encoder_{'_'.join(masks)}_{name}"] = partial(
                masked_encoder, dtype, length, masks
            )
        PROGRAMS[f"attention_masked_{name}"] = partial(
            masked_attention, dtype, length, length == 300
        )


def trained(kernel, N, dtype):
    q, k, v = (made(4, 8, N, 64, dtype=dtype) for _ in range(3))
    kernel.attention(q, k, v, causal=kernel.causal[-1]).sum().backward()


LENGTHS = {"linear": 8192, "linear-causal": 100, "linear-recurrent": 9}
for each in KERNELS:
    if each.name.startswith("linear"):
        for dtype in (torch.float32, torch.float16):
            name = f"{each.name}_{str(dtype).removeprefix('torch.')}".replace("-", "_")
            PROGRAMS[name] = partial(trained, each, LENGTHS.get(each.name, 1000), dtype)


def cast_in(*modes):
    """Layers under autocast: a cast of a weight is kept, with its gradient, but in inference."""
    m = nn.Linear(64, 96, device="cuda")
    x = made(8, 100, 64, grad=False).transpose(0, 1)
    with torch.autocast("cuda", torch.float16):
        for mode in modes:
            with mode():
                m(x)


PROGRAMS["autocast_evaluated"] = partial(cast_in, torch.no_grad, torch.no_grad)
PROGRAMS["autocast_inference"] = partial(cast_in, torch.inference_mode, torch.inference_mode)
PROGRAMS["autocast_trained_between"] = partial(
    cast_in, torch.inference_mode, torch.no_grad, torch.enable_grad, torch.inference_mode
)


def experts(*counts):
    """A layer of experts: tokens sorted by expert, two products of groups, and their gradients.

    A device without a kernel for all groups reads their ends, which have no values here.
    """
    if torch.cuda.get_device_capability()[0] not in (9, 10):
        raise RuntimeError("not recorded")
    count, tokens = len(counts), sum(counts)
    up, down = made(count, 64, 256, dtype=HALF), made(count, 128, 64, dtype=HALF)
    x, order = made(tokens, 64, dtype=HALF), torch.arange(tokens, device="cuda").flip(0)
    ends = torch.tensor(counts, device="cuda").cumsum(0, dtype=torch.int32)
    gate, value = F.grouped_mm(x[order], up, offs=ends).chunk(2, -1)
    y = F.grouped_mm(F.silu(gate) * value, down, offs=ends)
    (y[order] * 2).sum().backward()


HALF = torch.bfloat16
PROGRAMS["experts"] = partial(experts, 100, 0, 28, 900, 4, 0, 300, 16)
PROGRAMS["experts_large"] = partial(experts, 1000, 1200)
PROGRAMS |= listed(globals())
