"""Runs programs of libraries that know nothing of this package, on null and simulated.

``make strangers``, or ``python tests/suites/strangers.py [NAME ...]`` in an environment with the
CUDA build of torch and ``strangers.txt``, writes ``tests/data/suites/strangers.json``, of which
``page.py`` makes a section of docs/evidence/reach.md. Each program is the library's model as its
own README calls it, one or two steps of training or a search, in a process of its own for each
backend.
"""

from __future__ import annotations

import dis
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "suites" / "strangers.json"
BACKENDS = ("null:H100", "simulated:H100")
NUMBERS = ("peak_bytes", "allocated_bytes", "reserved_bytes", "retained_bytes")
PROGRAMS: dict[str, tuple[str, Callable[[], object]]] = {}


def program(library: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Registers a program of a library."""

    def register(function: Callable[[], object]) -> Callable[[], object]:
        PROGRAMS[function.__name__] = library, function
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
def decoder_with_rotary_embeddings() -> None:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=128, depth=2, heads=4, rotary_pos_emb=True, attn_flash=True)
    trained(TransformerWrapper(num_tokens=256, max_seq_len=512, attn_layers=layers), tokens(2, 512))


@program("x-transformers")
def generation_with_a_cache() -> None:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=64, depth=2, heads=2)
    net = TransformerWrapper(num_tokens=256, max_seq_len=128, attn_layers=layers)
    AutoregressiveWrapper(net).to("cuda").eval().generate(tokens(1, 4), 8)


@program("vit-pytorch")
def vision_transformer() -> None:
    from vit_pytorch import ViT

    trained(
        ViT(image_size=64, patch_size=8, num_classes=10, dim=64, depth=2, heads=4, mlp_dim=128),
        numbers(2, 3, 64, 64),
    )


@program("vit-pytorch")
def masked_autoencoder() -> None:
    from vit_pytorch import MAE, ViT

    sizes = {"image_size": 64, "patch_size": 8, "dim": 64, "depth": 2, "heads": 4, "mlp_dim": 128}
    net = ViT(num_classes=10, pool="mean", **sizes)
    trained(MAE(encoder=net, masking_ratio=0.75, decoder_dim=64), numbers(2, 3, 64, 64))


@program("performer-pytorch")
def performer() -> None:
    from performer_pytorch import PerformerLM

    net = PerformerLM(num_tokens=256, max_seq_len=256, dim=64, depth=2, heads=4, causal=False)
    trained(net, tokens(1, 256))


@program("linear-attention-transformer")
def linear_attention() -> None:
    from linear_attention_transformer import LinearAttentionTransformerLM

    net = LinearAttentionTransformerLM(
        num_tokens=256, dim=64, heads=4, depth=2, max_seq_len=512, causal=True
    )
    trained(net, tokens(1, 512))


@program("reformer-pytorch")
def reformer() -> None:
    from reformer_pytorch import ReformerLM

    net = ReformerLM(num_tokens=256, dim=64, depth=2, heads=4, max_seq_len=512, causal=True)
    trained(net, tokens(1, 512))


@program("perceiver-pytorch")
def perceiver() -> None:
    from perceiver_pytorch import Perceiver

    net = Perceiver(
        input_channels=3, input_axis=2, num_freq_bands=6, max_freq=10.0, depth=2, num_latents=32,
        latent_dim=64, num_classes=10,
    )  # fmt: skip
    trained(net, numbers(1, 32, 32, 3))


@program("routing-transformer")
def routing_transformer() -> None:
    from routing_transformer import RoutingTransformerLM

    net = RoutingTransformerLM(
        num_tokens=256, dim=64, heads=4, depth=2, max_seq_len=512, window_size=64, causal=True
    )
    trained(net, tokens(1, 512))


@program("sinkhorn-transformer")
def sinkhorn_transformer() -> None:
    from sinkhorn_transformer import SinkhornTransformerLM

    net = SinkhornTransformerLM(
        num_tokens=256, dim=64, heads=4, depth=2, bucket_size=64, max_seq_len=256
    )
    trained(net, tokens(1, 256))


@program("local-attention")
def local_attention() -> None:
    from local_attention import LocalTransformer

    net = LocalTransformer(
        num_tokens=256, dim=64, depth=2, max_seq_len=512, causal=True, local_attn_window_size=64
    )
    trained(net, tokens(1, 512))


@program("nystrom-attention")
def nystrom_attention() -> None:
    from nystrom_attention import Nystromformer

    trained(Nystromformer(dim=64, dim_head=16, heads=4, depth=2), numbers(1, 512, 64))


@program("linformer")
def linformer() -> None:
    from linformer import LinformerLM

    trained(
        LinformerLM(num_tokens=256, dim=64, seq_len=512, depth=2, heads=4, k=64), tokens(1, 512)
    )


@program("conformer")
def conformer() -> None:
    from conformer import ConformerBlock

    trained(ConformerBlock(dim=64, dim_head=16, heads=4), numbers(1, 256, 64))


@program("memory-efficient-attention-pytorch")
def tiled_attention() -> None:
    from memory_efficient_attention_pytorch import Attention

    net = Attention(dim=64, dim_head=16, heads=4, memory_efficient=True, q_bucket_size=128)
    trained(net, numbers(1, 512, 64))


@program("vector-quantize-pytorch")
def residual_vector_quantizer() -> None:
    from vector_quantize_pytorch import ResidualVQ

    net = torch.nn.Sequential(
        torch.nn.Linear(64, 64), ResidualVQ(dim=64, num_quantizers=3, codebook_size=128)
    )
    trained(net, numbers(1, 512, 64))


@program("denoising-diffusion-pytorch")
def diffusion() -> None:
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    net = Unet(dim=16, dim_mults=(1, 2))
    trained(GaussianDiffusion(net, image_size=32, timesteps=50), torch.rand(2, 3, 32, 32).cuda())


@program("lion-pytorch")
def lion() -> None:
    from lion_pytorch import Lion

    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
    trained(net, numbers(32, 64), optimizer=Lion)


@program("adan-pytorch")
def adan() -> None:
    from adan_pytorch import Adan

    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
    trained(net, numbers(32, 64), optimizer=Adan)


@program("kornia")
def augmentation() -> None:
    import kornia.filters as filters

    image = numbers(2, 3, 64, 64).requires_grad_()
    filters.sobel(filters.gaussian_blur2d(image, (5, 5), (1.5, 1.5))).sum().backward()


@program("pytorch-metric-learning")
def contrastive_loss() -> None:
    from pytorch_metric_learning.losses import NTXentLoss

    embeddings = numbers(64, 32).requires_grad_()
    NTXentLoss()(embeddings, torch.arange(32, device="cuda").repeat(2)).backward()


@program("gpytorch")
def kernel_matrix() -> None:
    from gpytorch.kernels import RBFKernel, ScaleKernel

    kernel = ScaleKernel(RBFKernel()).to("cuda")
    kernel(numbers(200, 3)).to_dense().sum().backward()


@program("torchdiffeq")
def differential_equation() -> None:
    from torchdiffeq import odeint

    layer = torch.nn.Linear(8, 8).to("cuda")
    times = torch.linspace(0.0, 1.0, 5, device="cuda")
    odeint(lambda _, y: layer(y).tanh(), numbers(4, 8), times, method="rk4").sum().backward()


@program("entmax")
def sparse_softmax() -> None:
    from entmax import entmax_bisect, sparsemax

    x = numbers(8, 100).requires_grad_()
    (sparsemax(x, dim=-1).square() + entmax_bisect(x, alpha=1.5, dim=-1).square()).sum().backward()


@program("g-mlp-pytorch")
def gated_mlp() -> None:
    from g_mlp_pytorch import gMLP

    trained(gMLP(num_tokens=256, dim=64, depth=2, seq_len=128), tokens(1, 128))


@program("mlp-mixer-pytorch")
def mlp_mixer() -> None:
    from mlp_mixer_pytorch import MLPMixer

    net = MLPMixer(image_size=64, channels=3, patch_size=8, dim=64, depth=2, num_classes=10)
    trained(net, numbers(2, 3, 64, 64))


@program("glom-pytorch")
def glom() -> None:
    from glom_pytorch import Glom

    trained(Glom(dim=32, levels=3, image_size=32, patch_size=8), numbers(1, 3, 32, 32))


@program("axial-attention")
def axial_attention() -> None:
    from axial_attention import AxialAttention

    net = AxialAttention(dim=32, dim_index=1, heads=4, num_dimensions=2)
    trained(net, numbers(1, 32, 16, 16))


@program("tab-transformer-pytorch")
def tables() -> None:
    from tab_transformer_pytorch import FTTransformer

    net = FTTransformer(
        categories=(10, 5, 6), num_continuous=4, dim=32, dim_out=1, depth=2, heads=4
    )
    trained(net, tokens(2, 3, most=5), numbers(2, 4))


@program("rotary-embedding-torch")
def rotary_embedding() -> None:
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=32).to("cuda")
    rotary.rotate_queries_or_keys(numbers(1, 4, 256, 64).requires_grad_()).sum().backward()


@program("egnn-pytorch")
def equivariant_graph_network() -> None:
    from egnn_pytorch import EGNN

    net = EGNN(dim=32).to("cuda")
    features, places = net(numbers(1, 16, 32), numbers(1, 16, 3))
    (features.sum() + places.sum()).backward()


@program("product-key-memory")
def product_keys() -> None:
    from product_key_memory import PKM

    trained(PKM(64, heads=2, num_keys=32, topk=8, dim_head=32), numbers(1, 128, 64))


@program("soft-moe-pytorch")
def soft_experts() -> None:
    from soft_moe_pytorch import SoftMoE

    trained(SoftMoE(dim=64, seq_len=128, num_experts=4), numbers(1, 128, 64))


@program("mixture-of-experts")
def routed_experts() -> None:
    from mixture_of_experts import MoE

    trained(MoE(dim=64, num_experts=4, hidden_dim=128), numbers(2, 128, 64))


@program("efficientnet-pytorch")
def efficient_net() -> None:
    from efficientnet_pytorch import EfficientNet

    trained(EfficientNet.from_name("efficientnet-b0", num_classes=10), numbers(1, 3, 64, 64))


@program("segmentation-models-pytorch")
def segmentation() -> None:
    import segmentation_models_pytorch

    net = segmentation_models_pytorch.Unet("resnet18", encoder_weights=None, classes=2)
    trained(net, numbers(1, 3, 64, 64))


@program("open_clip_torch")
def clip() -> None:
    import open_clip

    net = open_clip.create_model("ViT-B-32", pretrained=None, device="cuda")
    net(numbers(1, 3, 224, 224), tokens(1, 77))[0].sum().backward()


@program("monai")
def volumes() -> None:
    from monai.networks.nets import UNETR

    net = UNETR(
        in_channels=1, out_channels=2, img_size=(32, 32, 32), feature_size=8, hidden_size=48,
        mlp_dim=96, num_heads=4,
    )  # fmt: skip
    trained(net, numbers(1, 1, 32, 32, 32))


def main(names: list[str]) -> None:
    """Runs the programs on each backend, and writes what is found after each."""
    found = json.loads(DATA.read_text("utf-8")) if names and DATA.exists() else {}
    rows = found.get("programs", {})
    for name in names or PROGRAMS:
        library = PROGRAMS[name][0]
        told = {backend: on(backend, name) for backend in BACKENDS}
        rows[name] = {"library": f"{library} {version(library)}", **told}
        print(name, rows[name], flush=True)
        found = {"torch": version("torch"), "programs": rows}
        DATA.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def on(backend: str, name: str) -> list[int] | str:
    """Returns the numbers of a program on a backend, or why it has none.

    What it imports is imported before, because a first import keeps tensors until a collection.
    """
    code = dis.get_instructions(PROGRAMS[name][1])
    modules = [one.argval for one in code if one.opname == "IMPORT_NAME"]
    suite = (
        f"import {', '.join(['pytest', 'sys', *modules])}\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import strangers, torch\n"
        "@pytest.mark.memory_budget('1 TiB')\n"
        "def test_it():\n"
        "    torch.manual_seed(0)  # the experts that a router chooses have a number of tokens\n"
        f"    strangers.PROGRAMS[{name!r}][1]()\n"
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
