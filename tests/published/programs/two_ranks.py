"""Training on two ranks: gradients reduced as they come, and the optimizer's state in shards."""

from __future__ import annotations

import socket
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from language_model import AdamW, Model
from torch import Tensor, cuda, nn

WORLD = 2


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Returns the course's loss."""
    shifted = logits - torch.max(logits, dim=-1, keepdim=True)[0]
    logarithms = shifted - torch.log(torch.sum(torch.exp(shifted), dim=-1, keepdim=True))
    negative = -logarithms
    return torch.mean(torch.gather(negative, -1, targets.unsqueeze(-1)))


class Overlapping:
    """Sums each gradient over the ranks as soon as it is there."""

    def __init__(self, model: nn.Module, *, buffers: bool) -> None:
        self.pending: list[tuple[nn.Parameter, Any]] = []
        with torch.no_grad():
            for tensor in [*model.parameters(), *(model.buffers() if buffers else ())]:
                dist.broadcast(tensor.data, src=0)
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self.reduce)

    def reduce(self, parameter: nn.Parameter) -> None:
        assert parameter.grad is not None
        work = dist.all_reduce(parameter.grad.data, async_op=True)
        self.pending.append((parameter, work))

    def finish(self) -> None:
        """Waits for the sums, and divides them."""
        for parameter, work in self.pending:
            work.wait()
            assert parameter.grad is not None
            parameter.grad.data.div_(WORLD)
        self.pending.clear()


class Sharded:
    """An optimizer whose state each rank has of every other parameter."""

    def __init__(self, model: nn.Module, kind: Any, bucket: int = 0, **options: Any) -> None:
        self.parameters = [*model.parameters()]
        self.inner = kind(self.parameters[dist.get_rank() :: WORLD], **options)
        self.bucket = bucket

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Updates the shard, and sends the parameters: one at a time, or in buckets of bytes."""
        if not self.bucket:
            with torch.no_grad():
                self.inner.step()
                for number, parameter in enumerate(self.parameters):
                    dist.broadcast(parameter.data, src=number % WORLD)
            return
        self.inner.step()
        pending = []
        for owner, parameters in self.buckets():
            flat = torch.cat([parameter.data.reshape(-1) for parameter in parameters])
            pending.append((owner, flat, dist.broadcast(flat, owner, async_op=True), parameters))
        for owner, flat, work, parameters in pending:
            work.wait()
            if owner != dist.get_rank():
                parts = flat.split([parameter.numel() for parameter in parameters])
                for parameter, part in zip(parameters, parts, strict=True):
                    parameter.data.copy_(part.reshape(parameter.shape))

    def buckets(self) -> list[tuple[int, list[nn.Parameter]]]:
        """Returns the parameters of each owner in parts of so many bytes."""
        found = []
        for owner in range(WORLD):
            part: list[nn.Parameter] = []
            for parameter in self.parameters[owner::WORLD]:
                part.append(parameter)
                if sum(one.numel() * one.element_size() for one in part) >= self.bucket:
                    found.append((owner, part))
                    part = []
            if part:
                found.append((owner, part))
        return found


def levels(context: int, sharded: bool, device: str) -> dict[str, int]:
    """Levels around an optimizer's step, of a model of 2 B parameters."""
    cuda.reset_peak_memory_stats()
    model = Model("xl", context, 2025).to(device)
    optimizer: Any = Sharded(model, AdamW) if sharded else AdamW(model.parameters())
    overlapping = Overlapping(model, buffers=True)
    found = {"after_model": cuda.max_memory_allocated()}
    kept = [torch.tensor(found["after_model"], device=device)]
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    x = torch.empty((2, context), dtype=torch.long, device=device)
    y = torch.empty((2, context), dtype=torch.long, device=device)
    kept += [torch.zeros(1, device=device) for _ in range(4)]
    for _ in range(3):
        inputs = targets = None
        if dist.get_rank() == 0:
            tokens = torch.zeros(WORLD * 2, context, dtype=torch.int64).pin_memory()
            inputs, targets = (tokens.to(device, non_blocking=True) for _ in range(2))
        dist.scatter(x, [*inputs.chunk(WORLD)] if inputs is not None else None, src=0)
        dist.scatter(y, [*targets.chunk(WORLD)] if targets is not None else None, src=0)
        logits = model(x)
        loss = cross_entropy(logits, y)
        loss.backward()
        overlapping.finish()
        cuda.synchronize()
        found["before_step"] = cuda.memory_allocated()
        optimizer.step()
        found["after_step"] = cuda.memory_allocated()
    return found


def peaks(context: int, sharded: bool, device: str) -> dict[str, int]:
    """Peaks of a step with PyTorch's AdamW, of a model of 3.4 B parameters."""
    cuda.reset_peak_memory_stats()
    model = Model("2.7B", context, 2026).to(device)
    overlapping = Overlapping(model, buffers=False)
    optimizer: Any = (
        Sharded(model, torch.optim.AdamW, 25 * 2**20, lr=1e-4)
        if sharded
        else torch.optim.AdamW(model.parameters(), lr=1e-4)
    )
    found = {"after_init": cuda.max_memory_allocated()}
    tokens = torch.randint(0, 10000, (4, context + 1), device=device)
    place = dist.get_rank() * 2
    inputs, targets = tokens[place : place + 2, :-1], tokens[place : place + 2, 1:]

    def step() -> None:
        optimizer.zero_grad()
        logits = model(inputs)
        loss = cross_entropy(logits, targets)
        loss.backward()
        overlapping.finish()
        optimizer.step()

    for _ in range(2):
        step()
    cuda.reset_peak_memory_stats()
    found["baseline"] = cuda.memory_allocated()
    optimizer.zero_grad()
    logits = model(inputs)
    loss = cross_entropy(logits, targets)
    loss.backward()
    overlapping.finish()
    found["before_step"] = cuda.max_memory_allocated()
    optimizer.step()
    found["after_step"] = cuda.max_memory_allocated()
    return found


def fused(context: int, device: str) -> dict[str, int]:
    """Levels and peaks of a step with PyTorch's fused AdamW."""
    cuda.reset_peak_memory_stats()
    model = Model("2.7B", context, 2026).to(device)
    overlapping = Overlapping(model, buffers=False)
    residency: list[Any] = [None] * WORLD
    dist.all_gather_object(residency, {"rank": dist.get_rank(), "count": 0, "bytes": 0})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    found = {"wrapped": cuda.memory_allocated(), "wrapped_peak": cuda.max_memory_allocated()}
    tokens = torch.randint(0, 10000, (4, context + 1), device=device)
    place = dist.get_rank() * 2
    inputs, targets = tokens[place : place + 2, :-1], tokens[place : place + 2, 1:]

    def step() -> None:
        optimizer.zero_grad()
        logits = model(inputs)
        loss = cross_entropy(logits, targets)
        loss.backward()
        overlapping.finish()
        optimizer.step()

    for _ in range(3):
        step()
    found["warm"] = cuda.memory_allocated()
    found["warm_peak"] = cuda.max_memory_allocated()
    cuda.reset_peak_memory_stats()
    found["start"] = cuda.memory_allocated()
    optimizer.zero_grad()
    found["no_gradients"] = cuda.memory_allocated()
    logits = model(inputs)
    loss = cross_entropy(logits, targets)
    loss.backward()
    overlapping.finish()
    found["backward"] = cuda.memory_allocated()
    found["backward_peak"] = cuda.max_memory_allocated()
    optimizer.step()
    found["stepped"] = cuda.memory_allocated()
    found["stepped_peak"] = cuda.max_memory_allocated()
    return found


def summed(context: int, sharded: bool, device: str) -> dict[str, int]:
    """Levels and peaks around a step with PyTorch's AdamW, the gradients summed one by one."""
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    model = Model("2.7B", context, 2026).to(device)
    with torch.no_grad():
        for parameter in model.parameters():
            dist.broadcast(parameter, src=0)
    found = {"init_peak": cuda.max_memory_allocated(), "init": cuda.memory_allocated()}
    optimizer: Any = (
        Sharded(model, torch.optim.AdamW, lr=1e-4)
        if sharded
        else torch.optim.AdamW(model.parameters(), lr=1e-4)
    )
    tokens, labels = (torch.randint(0, 10000, (4, context), device=device) for _ in range(2))
    place = dist.get_rank() * 2
    inputs, targets = tokens[place : place + 2], labels[place : place + 2]
    for _ in range(3):
        optimizer.zero_grad()
        cuda.reset_peak_memory_stats()
        logits = model(inputs)
        loss = F.cross_entropy(logits.reshape(-1, 10000), targets.reshape(-1))
        loss.backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
            parameter.grad /= WORLD
        found["before_peak"] = cuda.max_memory_allocated()
        found["before"] = cuda.memory_allocated()
        cuda.reset_peak_memory_stats()
        optimizer.step()
        found["after_peak"] = cuda.max_memory_allocated()
        found["after"] = cuda.memory_allocated()
    return found


def convolutions(device: str) -> dict[str, int]:
    """Levels of four steps of a small network under DistributedDataParallel."""
    torch.backends.cudnn.deterministic = True
    batch = torch.randn(2, 3, 224, 224).to(device)

    def block(inputs: int, size: int) -> list[nn.Module]:
        convolution = nn.Conv2d(
            inputs, 128 if size == 5 else 64, size, padding=size // 2 * (size == 5)
        )
        return [convolution, nn.BatchNorm2d(128 if size == 5 else 64), nn.ReLU(inplace=True)]

    layers = [*block(3, 3), *block(64, 5), *block(128, 5), *block(128, 5)]
    head = [nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(128, 10)]
    module = nn.Sequential(*layers, *head).to(device)
    model = nn.parallel.DistributedDataParallel(
        module, device_ids=[dist.get_rank()], bucket_cap_mb=500
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    found = {}
    for number in range(4):
        found[f"{number} start"] = cuda.memory_allocated()
        output = model(batch)
        found[f"{number} fwd"] = cuda.memory_allocated()
        total = sum(one.sum() for one in output[0])
        loss = F.mse_loss(total, torch.tensor(0.0).to(device))  # type: ignore[arg-type]
        found[f"{number} loss"] = cuda.memory_allocated()
        loss.backward()
        found[f"{number} bwd"] = cuda.memory_allocated()
        optimizer.step()
        found[f"{number} step"] = cuda.memory_allocated()
        model.zero_grad(set_to_none=True)
        found[f"{number} done"] = cuda.memory_allocated()
    return found


def rank_of(rank: int, port: int, work: str, sizes: dict[str, Any], answers: Any) -> None:
    """Runs one rank, and puts what it read."""
    cuda.set_device(rank)
    device = f"cuda:{rank}"
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("nccl", init_method=address, rank=rank, world_size=WORLD)
    answers.put((rank, globals()[work](**sizes, device=device)))
    dist.barrier()
    dist.destroy_process_group()


def both(work: str, of: str = "first", **sizes: Any) -> dict[str, int]:
    """Returns what the first rank read, or the larger number of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answers = mp.get_context("spawn").SimpleQueue()
    mp.spawn(rank_of, (port, work, sizes, answers), nprocs=WORLD)
    found = dict(answers.get() for _ in range(WORLD))
    if of == "first":
        return dict(found[0])
    return {name: max(found[rank][name] for rank in found) for name in found[0]}
