"""Runs programs of libraries that know nothing of this package, on null and simulated.

``make strangers``, or ``python tests/suites/strangers.py [NAME ...]`` in an environment with the
CUDA build of torch and ``strangers.txt``, writes ``tests/data/suites/strangers.json``, of which
``page.py`` makes a section of docs/evidence/reach.md. Each program is the library's model as its
own README calls it, one or two steps of training or a search, in a process of its own for each
backend.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "suites" / "strangers.json"
BACKENDS = ("null:H100", "simulated:H100")
NUMBERS = ("peak_bytes", "allocated_bytes", "reserved_bytes", "retained_bytes")


class Program(NamedTuple):
    """A program of a library, which is given the module that it takes of it."""

    library: str
    module: str
    run: Callable[[Any], object]


PROGRAMS: dict[str, Program] = {}
#: What the language models of many libraries are called with.
LM = {"num_tokens": 256, "dim": 64, "heads": 4, "depth": 2}


def program(library: str, module: str = "") -> Callable[[Callable[[Any], object]], object]:
    """Registers a program of a library, whose module is named like it unless given."""

    def register(function: Callable[[Any], object]) -> object:
        named = module or library.replace("-", "_")
        PROGRAMS[function.__name__] = Program(library, named, function)
        return function

    return register


def trained(model: torch.nn.Module, *inputs: Any, optimizer: Any = torch.optim.AdamW) -> None:
    """Trains a model for two steps on the sum of its first result."""
    model = model.to("cuda")
    steps = optimizer(model.parameters(), lr=1e-4)
    for _ in range(2):
        out = model(*inputs)
        while not isinstance(out, torch.Tensor):
            out = next(iter(out.values() if isinstance(out, dict) else out))
        out.float().mean().backward()
        steps.step()
        steps.zero_grad()


def tokens(*shape: int, most: int = 256) -> torch.Tensor:
    return torch.randint(0, most, shape, device="cuda")


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda")


@program("x-transformers")
def decoder_with_rotary_embeddings(lib: Any) -> None:
    layers = lib.Decoder(dim=128, depth=2, heads=4, rotary_pos_emb=True, attn_flash=True)
    net = lib.TransformerWrapper(num_tokens=256, max_seq_len=512, attn_layers=layers)
    trained(net, tokens(2, 512))


@program("x-transformers")
def generation_with_a_cache(lib: Any) -> None:
    layers = lib.Decoder(dim=64, depth=2, heads=2)
    net = lib.TransformerWrapper(num_tokens=256, max_seq_len=128, attn_layers=layers)
    lib.AutoregressiveWrapper(net).to("cuda").eval().generate(tokens(1, 4), 8)


VIT = {"image_size": 64, "patch_size": 8, "num_classes": 10, "dim": 64}


@program("vit-pytorch")
def vision_transformer(lib: Any) -> None:
    trained(lib.ViT(**VIT, depth=2, heads=4, mlp_dim=128), numbers(2, 3, 64, 64))


@program("vit-pytorch")
def masked_autoencoder(lib: Any) -> None:
    net = lib.ViT(**VIT, depth=2, heads=4, mlp_dim=128, pool="mean")
    trained(lib.MAE(encoder=net, masking_ratio=0.75, decoder_dim=64), numbers(2, 3, 64, 64))


@program("performer-pytorch")
def performer(lib: Any) -> None:
    trained(lib.PerformerLM(**LM, max_seq_len=256, causal=False), tokens(1, 256))


@program("linear-attention-transformer")
def linear_attention(lib: Any) -> None:
    net = lib.LinearAttentionTransformerLM(**LM, max_seq_len=512, causal=True)
    trained(net, tokens(1, 512))


@program("reformer-pytorch")
def reformer(lib: Any) -> None:
    trained(lib.ReformerLM(**LM, max_seq_len=512, causal=True), tokens(1, 512))


@program("perceiver-pytorch")
def perceiver(lib: Any) -> None:
    net = lib.Perceiver(
        input_channels=3, input_axis=2, num_freq_bands=6, max_freq=10.0, depth=2, num_latents=32,
        latent_dim=64, num_classes=10,
    )  # fmt: skip
    trained(net, numbers(1, 32, 32, 3))


@program("routing-transformer")
def routing_transformer(lib: Any) -> None:
    net = lib.RoutingTransformerLM(**LM, max_seq_len=512, window_size=64, causal=True)
    trained(net, tokens(1, 512))


@program("sinkhorn-transformer")
def sinkhorn_transformer(lib: Any) -> None:
    trained(lib.SinkhornTransformerLM(**LM, bucket_size=64, max_seq_len=256), tokens(1, 256))


@program("local-attention")
def local_attention(lib: Any) -> None:
    net = lib.LocalTransformer(
        num_tokens=256, dim=64, depth=2, max_seq_len=512, causal=True, local_attn_window_size=64
    )
    trained(net, tokens(1, 512))


@program("nystrom-attention")
def nystrom_attention(lib: Any) -> None:
    trained(lib.Nystromformer(dim=64, dim_head=16, heads=4, depth=2), numbers(1, 512, 64))


@program("linformer")
def linformer(lib: Any) -> None:
    trained(lib.LinformerLM(**LM, seq_len=512, k=64), tokens(1, 512))


@program("conformer")
def conformer(lib: Any) -> None:
    trained(lib.ConformerBlock(dim=64, dim_head=16, heads=4), numbers(1, 256, 64))


@program("memory-efficient-attention-pytorch")
def tiled_attention(lib: Any) -> None:
    net = lib.Attention(dim=64, dim_head=16, heads=4, memory_efficient=True, q_bucket_size=128)
    trained(net, numbers(1, 512, 64))


@program("vector-quantize-pytorch")
def residual_vector_quantizer(lib: Any) -> None:
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 64), lib.ResidualVQ(dim=64, num_quantizers=3, codebook_size=128)
    )
    trained(net, numbers(1, 512, 64))


@program("denoising-diffusion-pytorch")
def diffusion(lib: Any) -> None:
    net = lib.GaussianDiffusion(lib.Unet(dim=16, dim_mults=(1, 2)), image_size=32, timesteps=50)
    trained(net, torch.rand(2, 3, 32, 32).cuda())


def perceptron() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))


@program("lion-pytorch")
def lion(lib: Any) -> None:
    trained(perceptron(), numbers(32, 64), optimizer=lib.Lion)


@program("adan-pytorch")
def adan(lib: Any) -> None:
    trained(perceptron(), numbers(32, 64), optimizer=lib.Adan)


@program("kornia", "kornia.filters")
def augmentation(lib: Any) -> None:
    image = numbers(2, 3, 64, 64).requires_grad_()
    lib.sobel(lib.gaussian_blur2d(image, (5, 5), (1.5, 1.5))).sum().backward()


@program("pytorch-metric-learning", "pytorch_metric_learning.losses")
def contrastive_loss(lib: Any) -> None:
    embeddings = numbers(64, 32).requires_grad_()
    lib.NTXentLoss()(embeddings, torch.arange(32, device="cuda").repeat(2)).backward()


@program("gpytorch", "gpytorch.kernels")
def kernel_matrix(lib: Any) -> None:
    kernel = lib.ScaleKernel(lib.RBFKernel()).to("cuda")
    kernel(numbers(200, 3)).to_dense().sum().backward()


@program("torchdiffeq")
def differential_equation(lib: Any) -> None:
    layer = torch.nn.Linear(8, 8).to("cuda")
    times = torch.linspace(0.0, 1.0, 5, device="cuda")
    lib.odeint(lambda _, y: layer(y).tanh(), numbers(4, 8), times, method="rk4").sum().backward()


@program("entmax")
def sparse_softmax(lib: Any) -> None:
    x = numbers(8, 100).requires_grad_()
    (
        lib.sparsemax(x, dim=-1).square() + lib.entmax_bisect(x, alpha=1.5, dim=-1).square()
    ).sum().backward()


@program("g-mlp-pytorch")
def gated_mlp(lib: Any) -> None:
    trained(lib.gMLP(num_tokens=256, dim=64, depth=2, seq_len=128), tokens(1, 128))


@program("mlp-mixer-pytorch")
def mlp_mixer(lib: Any) -> None:
    net = lib.MLPMixer(image_size=64, channels=3, patch_size=8, dim=64, depth=2, num_classes=10)
    trained(net, numbers(2, 3, 64, 64))


@program("glom-pytorch")
def glom(lib: Any) -> None:
    trained(lib.Glom(dim=32, levels=3, image_size=32, patch_size=8), numbers(1, 3, 32, 32))


@program("axial-attention")
def axial_attention(lib: Any) -> None:
    net = lib.AxialAttention(dim=32, dim_index=1, heads=4, num_dimensions=2)
    trained(net, numbers(1, 32, 16, 16))


@program("tab-transformer-pytorch")
def tables(lib: Any) -> None:
    net = lib.FTTransformer(
        categories=(10, 5, 6), num_continuous=4, dim=32, dim_out=1, depth=2, heads=4
    )
    trained(net, tokens(2, 3, most=5), numbers(2, 4))


@program("rotary-embedding-torch")
def rotary_embedding(lib: Any) -> None:
    rotary = lib.RotaryEmbedding(dim=32).to("cuda")
    rotary.rotate_queries_or_keys(numbers(1, 4, 256, 64).requires_grad_()).sum().backward()


@program("egnn-pytorch")
def equivariant_graph_network(lib: Any) -> None:
    net = lib.EGNN(dim=32).to("cuda")
    features, places = net(numbers(1, 16, 32), numbers(1, 16, 3))
    (features.sum() + places.sum()).backward()


@program("product-key-memory")
def product_keys(lib: Any) -> None:
    trained(lib.PKM(64, heads=2, num_keys=32, topk=8, dim_head=32), numbers(1, 128, 64))


@program("soft-moe-pytorch")
def soft_experts(lib: Any) -> None:
    trained(lib.SoftMoE(dim=64, seq_len=128, num_experts=4), numbers(1, 128, 64))


@program("mixture-of-experts")
def routed_experts(lib: Any) -> None:
    trained(lib.MoE(dim=64, num_experts=4, hidden_dim=128), numbers(2, 128, 64))


@program("efficientnet-pytorch")
def efficient_net(lib: Any) -> None:
    net = lib.EfficientNet.from_name("efficientnet-b0", num_classes=10)
    trained(net, numbers(1, 3, 64, 64))


@program("segmentation-models-pytorch")
def segmentation(lib: Any) -> None:
    net = lib.Unet("resnet18", encoder_weights=None, classes=2)
    trained(net, numbers(1, 3, 64, 64))


@program("open_clip_torch", "open_clip")
def clip(lib: Any) -> None:
    net = lib.create_model("ViT-B-32", pretrained=None, device="cuda")
    net(numbers(1, 3, 224, 224), tokens(1, 77))[0].sum().backward()


@program("monai", "monai.networks.nets")
def volumes(lib: Any) -> None:
    net = lib.UNETR(
        in_channels=1, out_channels=2, img_size=(32, 32, 32), feature_size=8, hidden_size=48,
        mlp_dim=96, num_heads=4,
    )  # fmt: skip
    trained(net, numbers(1, 1, 32, 32, 32))


def main(names: list[str]) -> None:
    """Runs the programs on each backend, and writes what is found after each."""
    found = json.loads(DATA.read_text("utf-8")) if names and DATA.exists() else {}
    rows = found.get("programs", {})
    for name in names or PROGRAMS:
        library = PROGRAMS[name].library
        told = {backend: on(backend, name) for backend in BACKENDS}
        rows[name] = {"library": f"{library} {version(library)}", **told}
        print(name, rows[name], flush=True)
        found = {"torch": version("torch"), "programs": rows}
        DATA.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def on(backend: str, name: str) -> list[int] | str:
    """Returns the numbers of a program on a backend, or why it has none.

    Its module is imported before, because a first import keeps tensors until a collection.
    """
    module = PROGRAMS[name].module
    suite = (
        f"import {module}, pytest, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import strangers, torch\n"
        "@pytest.mark.memory_budget('1 TiB')\n"
        "def test_it():\n"
        "    torch.manual_seed(0)  # the experts that a router chooses have a number of tokens\n"
        f"    strangers.PROGRAMS[{name!r}].run(sys.modules[{module!r}])\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_it.py").write_text(suite)
        Path(folder, "pytest.ini").write_text("[pytest]\n")
        report = Path(folder, "report.json")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             f"--attnmem-backend={backend}", f"--attnmem-json={report}"],
            cwd=folder, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        rows = json.loads(report.read_text("utf-8"))["results"] if report.exists() else []
    if not rows:
        return f"raised: {done.stdout[-300:]}"
    (row,) = rows
    if row["outcome"] != "within":
        return f"refused: {row['reason']}"
    return [row[number] for number in NUMBERS]


if __name__ == "__main__":
    main(sys.argv[1:])
