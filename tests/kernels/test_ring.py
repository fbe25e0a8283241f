"""Ring attention in 2 and 4 processes: full attention together, each at its model's cost."""

from __future__ import annotations

import re

import pytest
import torch
import torch.distributed as dist

from pytest_attnmem.kernels.ring import BLOCK_K, BLOCK_Q, MODEL, attention
from pytest_attnmem.symbols.attention_shape import Source, gather

from . import programs
from . import ring_program as program

TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
CPU = ("cpu",)

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
)


class Run:
    """The results that the processes of one run left."""

    def __init__(self, folder, size):
        self.size = size
        self.ranks = [
            torch.load(folder / f"rank-{rank}.pt", weights_only=False) for rank in range(size)
        ]
        self.cases = [case for case in self.ranks[0] if case in program.CASES]

    def whole(self, case, index, run="computed"):
        """The output (0) or a gradient (1 to 3) of all ranks."""
        return torch.cat([results[case][run][0][index] for results in self.ranks], 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pytestconfig):
    """Where the processes of all runs left it, of each fifth case with ``--cases``."""
    folder = tmp_path_factory.mktemp("ranks")
    step = "1" if pytestconfig.getoption("--cases") is None else "5"
    programs.run(program, folder, step, OMP_NUM_THREADS="1")
    return folder


@pytest.fixture(scope="module", params=program.RANKS, ids="{} ranks".format)
def run(request, folder):
    """The run of as many ranks as the test asks for."""
    return Run(folder / str(request.param), request.param)


def shape(case, ranks, **more):
    (B, H, n, m, d, dv), dtype, causal = case
    sizes = {"B": B, "H": H, "N": n * ranks, "M": m * ranks, "d": d, "dv": dv, "dtype": dtype}
    return gather(
        [Source("the test", {**sizes, "R": ranks, "causal": causal, **program.OPTIONS, **more})]
    )


def test_the_parts_are_full_attention(run):
    for case in run.cases:
        sizes, dtype, causal = case
        found = [run.whole(case, index) for index in range(4)]
        assert {x.dtype for x in found} == {dtype}
        expected, _ = programs.exact(programs.tensors(sizes, dtype, run.size), causal)
        programs.hold(found, expected, TOLERANCE[dtype])


def test_two_runs_are_equal_to_the_bit_and_all_is_written(run):
    for case in run.cases:
        # The second starts from NaN where nothing is written.
        for index in range(4):
            assert torch.equal(run.whole(case, index), run.whole(case, index, "again"))


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
def test_every_ranks_peak_is_the_models(training, run):
    for case in run.cases:
        model = MODEL.training if training else MODEL.forward
        for results in run.ranks:
            real, _, problem = results[case]["peaks"][training, False]
            program_alone, _, _ = results[case]["peaks"][training, True]
            assert problem is None
            assert real == model.peak(shape(case, run.size), CPU)
            assert program_alone == model.peak(shape(case, run.size))


def test_nothing_but_the_output_is_retained_without_gradients(run):
    for case in run.cases:
        (B, H, n, _, _, dv), dtype, _ = case
        for results in run.ranks:
            assert results[case]["peaks"][False, False][1] == B * H * n * dv * dtype.itemsize


def test_five_tensors_of_one_rank_are_saved(run):
    for case in run.cases:
        (B, H, n, *_), dtype, _ = case
        for results in run.ranks:  # after q, k, v and the output
            (lse,) = results[case]["computed"][1]
            assert (lse.shape, lse.dtype) == ((B, H, n), torch.promote_types(dtype, torch.float32))


def test_options_and_layouts(run):
    last = run.cases[-1]
    sizes, dtype, _ = last
    (scaled, *_), _ = programs.exact(programs.tensors(sizes, dtype, run.size), scale=0.7)
    got = torch.cat([results["scale"][0] for results in run.ranks], 2)
    assert (got.double() - scaled).abs().max() <= TOLERANCE[dtype]
    strided = torch.cat([results["strided"][0] for results in run.ranks], 2)
    assert torch.equal(strided, run.whole(last, 0))


def test_ranks_that_differ_are_told_so_at_once(run):
    text = "all ranks must have the same B, H, N/R, d, M/R, dv and itemsize, got {} on rank {}"
    for rank, results in enumerate(run.ranks):
        kind, message = results["uneven"]
        mine, other = ([1, 1, 3 + r, 2, 3 + r, 2, 4] for r in (rank, 0 if rank else 1))
        assert kind == "ValueError"
        assert message == f"{text.format(mine, rank)} and {other} on rank {0 if rank else 1}"


def test_a_group_is_a_ring_of_its_own(run):
    refused = ("RuntimeError", "ring needs a group with this process in it, got one without")
    pair = [results["pair"] for results in run.ranks]
    # Keys are 0 and 1 throughout: rank 0's scores are equal, rank 1's are 0 and √2.
    assert (pair[0] - 0.5).abs().max() <= 1e-6
    assert (pair[1] - torch.tensor(2**0.5).sigmoid()).abs().max() <= 1e-6
    assert pair[2:] == [refused] * (run.size - 2)
    last = [results["last"] for results in run.ranks]
    assert last[-1].eq(run.size - 1).all()
    assert last[:-1] == [refused] * (run.size - 1)


def test_a_process_group_is_needed():
    x = torch.zeros(1, 1, 3, 2)
    message = "ring needs a process group: call torch.distributed.init_process_group first"
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}$"):
        attention(x, x, x)


def test_inputs_that_do_not_fit():
    x = torch.zeros(1, 1, 3, 2)
    message = "k must have shape [B, H, M, d] = [1, 1, M, 2] with M >= 1, got [3, 2]"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        attention(x, x[0, 0], x)


@pytest.mark.parametrize("name", ["block_q", "block_k"])
@pytest.mark.parametrize("size", [0, -1])
def test_blocks_have_rows(name, size):
    x = torch.zeros(1, 1, 3, 2)
    with pytest.raises(ValueError, match=f"^{name} must be at least 1, got {size}$"):
        attention(x, x, x, **{name: size})


@pytest.mark.parametrize("model", [MODEL.forward, MODEL.training], ids=["forward", "training"])
def test_any_number_of_ranks_can_be_predicted(model):
    def at(ranks, N=2**20):
        sizes = {"B": 1, "H": 8, "N": N, "d": 64, "dtype": "bfloat16", "R": ranks}
        return model.peak(gather([Source("the test", sizes)]))

    tiles = at(2**10, N=2**17) - (at(2**10, N=2**18) - at(2**10, N=2**17))  # what N is not in
    for ranks in (4, 64, 1024):
        # The part that depends on N: half as much for twice the ranks, or for half the positions.
        assert at(ranks, N=2**20) == at(2 * ranks, N=2**21)
        assert (at(ranks) - tiles) == 2 * (at(2 * ranks) - tiles)


def test_defaults_are_the_functions():
    assert MODEL.forward.defaults == {"causal": 0, "block_q": BLOCK_Q, "block_k": BLOCK_K}
