"""Steps of recipes of Megatron-LM, by its own training code of one commit, from a checkout.

That code takes kernels of apex and of Transformer Engine where they are installed, as they were
when its numbers were measured. Here functions of ours stand for them, which allocate what those do:
an output, a gradient in place. Memory does not depend on the tokens, so they are all ones.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import torch
from logged import stand_in
from torch import Tensor, cuda

GPT = {"tokens": 1024, "labels": 1024, "position_ids": 1024}
T5 = {"text_enc": 512, "text_dec": 128, "labels": 128, "loss_mask": 128}
#: What decides no byte, and what needs no data, no apex and no value.
SETTINGS = """
--mock-data --tokenizer-type NullTokenizer --num-workers 0 --eval-iters 0 --no-persist-layer-norm
--no-check-for-nan-in-loss-and-grad --save-interval 10000 --lr 1e-4 --log-interval 1
"""


class FusedAdam(torch.optim.Optimizer):
    """An Adam whose step is kernels in place; it has a flag on the device."""

    def __init__(self, params: Any, **options: Any) -> None:
        super().__init__(params, options)
        self.flag = torch.tensor([0], dtype=torch.int, device="cuda")

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Makes the state that is not there yet."""
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        for name in ("exp_avg", "exp_avg_sq"):
                            self.state[p].setdefault(name, torch.zeros_like(p, dtype=torch.float))
                        p.add_(p.grad)


class Ones(torch.utils.data.Dataset[dict[str, Tensor]]):
    """Samples of tokens that are all ones."""

    def __init__(self, lengths: dict[str, int]) -> None:
        self.sample = {n: torch.ones(k, dtype=torch.int64) for n, k in lengths.items()}
        if lengths is GPT:
            self.sample["loss_mask"] = torch.ones(1024)
            self.sample["attention_mask"] = torch.ones(1, 1024, 1024, dtype=torch.bool)
        else:
            self.sample |= {"enc_mask": self.sample["text_enc"]}
            self.sample |= {"dec_mask": self.sample["text_dec"]}

    def __len__(self) -> int:
        """Returns more than a few steps need."""
        return 10000

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self.sample


def stand_for_extensions() -> None:
    """Stands for the kernels of apex: softmaxes, and gradients summed into those of float32."""
    in_place = {"forward": lambda x, *_: torch.empty_like(x), "backward": lambda dy, *_: dy.neg_()}
    stand_in("scaled_softmax_cuda", **in_place)
    stand_in("scaled_upper_triang_masked_softmax_cuda", **in_place)

    def batches(queries: int, keys: int, *_: int) -> int:
        return 8 if keys <= 128 else 4

    stand_in("scaled_masked_softmax_cuda", get_batch_per_block=batches, **in_place)

    def product(*_: Tensor) -> None:
        cuda.current_blas_handle()  # and its workspace

    names = ("wgrad_gemm_accum_fp32", "wgrad_gemm_accum_fp16")
    stand_in("fused_weight_gradient_mlp_cuda", **dict.fromkeys(names, product))


def train(script: str, recipe: str, steps: int, overflows: bool = False) -> dict[str, int]:
    """Returns what is allocated, and the highest peak so far, when each step is logged.

    With ``overflows`` no step is taken, as in the first of float16, whose loss is scaled too much.
    """
    stand_for_extensions()
    optimizer: Any = import_module("megatron.core.optimizer")
    optimizer.Adam, optimizer.USING_PYTORCH_OPTIMIZER = FusedAdam, False
    import_module("megatron.core.optimizer.distrib_optimizer").Adam = FusedAdam  # type: ignore[attr-defined]
    if overflows:
        mixed = import_module("megatron.core.optimizer.optimizer").MixedPrecisionOptimizer
        mixed._unscale_main_grads_and_check_for_nan = lambda _: True
    import_module("megatron.core.datasets.utils").compile_helpers = int  # type: ignore[attr-defined]
    norm = import_module("megatron.core.transformer.torch_norm").WrappedTorchNorm
    import_module("megatron.core.models.T5.t5_spec").TENorm = norm  # type: ignore[attr-defined]
    training: Any = import_module("megatron.training.training")
    log, found = training.training_log, dict[str, int]()

    def logged(*arguments: Any, **options: Any) -> Any:
        step = arguments[4]
        found[f"{step} allocated"] = cuda.memory_allocated()
        found[f"{step} peak"] = cuda.max_memory_allocated()
        return log(*arguments, **options)

    training.training_log = logged
    sys.argv = [script, *recipe.split(), *SETTINGS.split(), "--train-iters", str(steps)]
    module: Any = import_module(script)
    data = Ones(GPT if script == "pretrain_gpt" else T5)

    def datasets(_: Any) -> tuple[Ones, ...]:
        return data, data, data

    datasets.is_distributed = True  # type: ignore[attr-defined]
    model = module.model_provider
    if script == "pretrain_gpt":
        builder = module.gpt_builder

        def model(*args: Any, **options: Any) -> Any:
            return module.model_provider(builder, *args, **options)

    module.pretrain(datasets, model, module.ModelType.encoder_or_decoder, module.forward_step)
    return found
