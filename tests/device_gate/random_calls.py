"""Random calls of operators on the device, in children: none may end its process.

``python tests/device_gate/random_calls.py SECONDS OUT.json [SEED]`` takes samples of ``op_db``
and changes them: views with gaps, no elements, other dtypes, freed memory, tensors of the host,
absurd numbers.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import opinfo_samples
import torch
from stand_ins import StandIn, in_child
from torch.utils._pytree import tree_map

from pytest_attnmem.errors import ProgramRefused

DTYPES = (torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64, torch.uint8)
#: The calls of a child, and the seconds after which one hangs.
CALLS, LIMIT = 60, 60


def changed(value: Any, pick: random.Random) -> Any:
    """Returns an argument, or what a program might give by mistake."""
    if isinstance(value, torch.Tensor):
        return _changed_tensor(value, pick)
    if type(value) is bool:
        return value if pick.random() < 0.7 else not value
    if type(value) is int and pick.random() < 0.15:
        return pick.choice([-1, 0, 1, 2, 7, -9, 1 << 40])
    if type(value) is float and pick.random() < 0.15:
        return pick.choice([0.0, -1.0, float("nan"), float("inf")])
    return value


def _changed_tensor(tensor: torch.Tensor, pick: random.Random) -> torch.Tensor:
    kind, rank = pick.randrange(14), tensor.dim()
    if kind == 0 and rank:
        return tensor.narrow(pick.randrange(rank), 0, 0)
    if kind == 1 and rank > 1:
        return tensor.transpose(0, -1)
    if kind == 2:
        return tensor.detach().to(pick.choice(DTYPES))
    if kind == 3:
        return tensor.unsqueeze(0).expand(3, *tensor.shape)
    if kind == 4 and rank:
        return tensor[..., ::2]
    if kind == 5 and rank and 0 not in tensor.shape:
        return tensor.select(pick.randrange(rank), 0)
    if kind == 6:
        freed = tensor.detach().clone()
        freed.untyped_storage().resize_(0)
        return freed
    if kind == 7:
        return tensor.flatten()
    if kind == 8:
        return torch.empty(0, device="cuda")
    return torch.zeros(tensor.shape) if kind == 9 else tensor


def run(stand_in: StandIn, seed: int) -> Iterator[str | list[str]]:
    """Makes the calls of a seed; yields each before it is made, and then what came of it."""
    pick, operators = random.Random(seed), opinfo_samples.operators()
    name = pick.choice(sorted(operators))
    samples = [*opinfo_samples.samples(name, operators[name], {torch.float32: 4})]
    for number in range(CALLS if samples else 0):
        sample = pick.choice(samples)
        yield f"{sample.name}, call {number} of seed {seed}"
        signal.alarm(LIMIT)
        with stand_in.backend.world():
            try:
                input, args, kwargs = tree_map(
                    lambda value: changed(value, pick) if pick.random() < 0.5 else value,
                    sample.on("cuda"),
                )
                opinfo_samples.backward(sample.op(input, *args, **kwargs))
                kind = "ran"
            except (ProgramRefused, Exception) as error:
                kind = type(error).__name__
        yield [kind]


def main() -> None:
    """Counts what becomes of the calls, and names those that ended a process."""
    seconds, out, *others = sys.argv[1:]
    end, seed = time.monotonic() + int(seconds), int((*others, "0")[0])
    warnings.simplefilter("ignore")
    stand_in, kinds, crashes = StandIn("simulated"), Counter[str](), list[str]()
    while time.monotonic() < end:
        lines, status = in_child(partial(run, stand_in, seed))
        kinds.update(line[0] for line in lines if isinstance(line, list))
        if os.WIFSIGNALED(status):
            crashes.append(f"signal {os.WTERMSIG(status)}: {lines[-1:]}")
        seed += 1
    found = {"calls": kinds.total(), "next seed": seed, "crashes": crashes}
    print(found, dict(kinds.most_common()))
    Path(out).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main()
