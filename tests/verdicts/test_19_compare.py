"""A comparison says how the two compare."""

SUITE = """
import torch

def test_checkpointing(attnmem):
    keep = lambda: torch.empty(36 << 20, dtype=torch.uint8)
    attnmem.compare(keep, keep, {bound})
"""


def short(suite, bound):
    suite.write(SUITE.format(bound=bound))
    return suite.run("--attnmem-backend=cpu").short("test_checkpointing")


def test_a_ratio(suite):
    assert short(suite, "max_ratio=0.8") == (
        "FAILED: pytest_attnmem.BudgetExceeded: compare: peak of new, 36.0 MiB, is 1.00x of base;"
        " allowed 28.8 MiB, 0.8x base 36.0 MiB on cpu"
    )


def test_a_saving(suite):
    assert short(suite, "min_saving='40%'") == (
        "FAILED: pytest_attnmem.BudgetExceeded: compare: peak of new, 36.0 MiB, is 1.00x of base;"
        " allowed 21.6 MiB, base 36.0 MiB less 40% on cpu"
    )
