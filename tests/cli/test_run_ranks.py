"""The lines that ``attnmem run --ranks`` prints of ranks that ran."""

import sys

from pytest_attnmem.cli.run_ranks import KINDS, RankRun, render, run_ranks
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
