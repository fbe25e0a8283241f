"""``memory_budget(…, ranks=…)`` in a session on a simulated device."""

import pytest

pytestmark = pytest.mark.usefixtures("simulation_imported")

SUITE = """
import pytest, torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

P = 2**20
budget = pytest.mark.memory_budget

@pytest.fixture
def group():
    dist.init_process_group("nccl")

@pytest.fixture
def model(group, W):
    layers = nn.Sequential(*(nn.Linear(256, 256, bias=False, device="cuda") for _ in range(2)))
    for layer in layers:
        fully_shard(layer)
    return fully_shard(layers)

@pytest.fixture
def summed(group):
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    return x

@budget("4*P/W + 4*P", ranks=2, exact=True, P=P)
def test_gathered(rank, W):
    dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (rank, W, "nccl")
    part = torch.ones(P // W, device="cuda")
    dist.all_gather_into_tensor(torch.empty(P, device="cuda"), part)

@budget("4*P/tp + 4*rank", ranks=2, P=P, exact=True)
def test_mesh(rank):
    mesh = init_device_mesh("cuda", (1, 2), mesh_dim_names=("dp", "tp"))
    torch.ones(P // mesh["tp"].size() + rank, device="cuda")

@budget("O(1/W)", ranks=2)
def test_copies(W):
    dist.init_process_group("nccl")
    torch.ones(P // W, device="cuda")
    whole = torch.ones(100, device="cuda")
    part = torch.ones(P // W, device="cuda")

@budget(2 * 256 * 256 * 4 // 2, ranks=2, metric="retained", exact=True)
def test_gradients_are_sharded(model):
    model(torch.ones(8, 256, device="cuda")).sum().backward()

@budget("1 KiB", ranks=1)
def test_alone(summed):
    assert (summed * torch.ones(4, device="cuda")).tolist() == [1, 1, 1, 1]

@budget("1 KiB", ranks=2)
def test_read(summed):
    assert (summed * torch.ones(4, device="cuda")).tolist() == [2, 2, 2, 2]

@budget(160, ranks=2, exact=True)  # on null too
def test_ddp(group):
    nn.parallel.DistributedDataParallel(nn.Linear(4, 4, device="cuda"))

@budget(40, ranks=2, exact=True)  # on null too
def test_meta(group):
    with torch.device("meta"):
        layer = nn.Linear(4, 4)
    fully_shard(layer).to_empty(device="cuda")

@budget(160, ranks=2, exact=True)  # on null too
def test_autocast(model):
    mesh = init_device_mesh("cuda", (2,))
    x = torch.distributed.tensor.distribute_tensor(torch.ones(4, 4, device="cuda"), mesh)
    with torch.autocast("cuda", torch.bfloat16):
        x @ x
"""

NOT_ENFORCED = (
    "test_read[rank0..1]: a value was read at test_it.py:55: the other ranks of allreduce do",
)


def test_a_budget_holds_for_each_simulated_rank(pytester):
    pytester.makepyfile(test_it=SUITE)
    result = pytester.runpytest_subprocess(
        "--attnmem-backend", "simulated:H100", "--attnmem-report", "-W", "ignore"
    )
    out = result.stdout.str()
    for line in NOT_ENFORCED:
        assert line in out
    assert "peak grows as 400 + 4194304/W on simulated:H100; the contract is O(1/W)" in out
    assert "attnmem: 17 budgets, 13 within, 2 over, 2 not enforced" in out
    assert "INTERNALERROR" not in out


def test_ranks_need_a_device_whose_collectives_move_nothing(pytester):
    pytester.makepyfile(
        "import pytest\n@pytest.mark.memory_budget('1 KiB', ranks=2)\ndef test_it(): pass"
    )
    result = pytester.runpytest("--attnmem-backend", "cpu")
    result.stdout.fnmatch_lines(
        "*memory_budget: ranks=2 needs a device whose other ranks need no process: pytest"
        " --attnmem-backend null:H100, or simulated:H100, for the whole session   *.py:2"
    )
