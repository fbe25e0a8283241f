"""The list of ranks, and the lines that ``attnmem run --ranks`` prints of ranks that ran."""

import sys

import pytest

from pytest_attnmem.cli.run_ranks import KINDS, RankRun, rank_list, render, run_ranks
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.nulldevice.launch import devices


def ran(rank, size, **held):
    peak = {f"{kind}_bytes": size for kind in KINDS}
    return RankRun(rank, 0, {"peaks": {"cuda:0": peak}, "held": {"cuda:0": held}})


def test_sizes_that_differ_never_read_the_same():
    runs = [ran(0, 2**25, step=2**20), ran(1, 2**25 + 16, step=2**20 + 16)]
    assert [*render(devices("2xH100"), 2, runs)] == [
        "attnmem: null:2xH100: 2 ranks, 2 run: at most 32.0 MiB requested, 32.0 MiB allocated,"
        " 32.0 MiB reserved, on rank 1",
        "attnmem:   rank 1: 33,554,448 B requested, 33,554,448 B allocated, 33,554,448 B reserved",
        "attnmem:   rank 0: 33,554,432 B requested, 33,554,432 B allocated, 33,554,432 B reserved",
        "attnmem:   step holds 1,048,592 B on rank 1, 1,048,576 B on rank 0",
    ]


def test_a_rank_computes_and_compiles_in_its_own_thread_unless_the_user_says_more(
    monkeypatch, capfd
):
    code = (
        "import os; print(os.environ.get('OMP_NUM_THREADS'),"
        " os.environ['TORCHINDUCTOR_COMPILE_THREADS'])"
    )
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("pytest_attnmem.cli.run_ranks.environment", lambda *_: {})
    for number in (1, 2):
        run_ranks([sys.executable, "-c", code], [], devices(f"{number}xH100"), 2, [0], 1)
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "4")
    run_ranks([sys.executable, "-c", code], [], devices("2xH100"), 2, [0], 1)
    assert capfd.readouterr().out.splitlines() == ["None 1", "1 1", "1 4"]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("0,last", [0, 7]), ("all", [*range(8)]), ("5-last, 1-2,1", [1, 2, 5, 6, 7])],
)
def test_ranks_are_listed_once_and_in_order(text, ranks):
    assert rank_list(text, 8) == ranks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("first", "--rank: found 'first'; expected all, or ranks such as 0,last or 0-3"),
        ("8", "--rank: found '8'; expected ranks from 0 to 7, as in 0,last"),
        ("3-1", "--rank: found '3-1'; expected ranks from 0 to 7, as in 0,last"),
    ],
)
def test_other_lists_are_refused(text, message):
    with pytest.raises(AttnMemError) as caught:
        rank_list(text, 8)
    assert str(caught.value) == message
