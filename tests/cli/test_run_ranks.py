"""The lines that ``attnmem run --ranks`` prints of ranks that ran."""

from pytest_attnmem.cli.run_ranks import KINDS, RankRun, render
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
