"""Times the derivation of closed forms: ``python benchmarks/derive.py``."""

import time

from torch import nn

from pytest_attnmem import derive
from pytest_attnmem.kernels import linear_causal, standard

QKV = ("B H N d",) * 3
LAYER = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
ATTENTION = nn.MultiheadAttention(256, 4, batch_first=True)

CASES = {
    "standard, forward": lambda: derive(standard.attention, *QKV),
    "standard, forward and backward": lambda: derive(standard.attention, *QKV, backward=True),
    "causal linear, forward and backward": lambda: derive(
        linear_causal.attention, *QKV, backward=True
    ),
    "nn.MultiheadAttention(256, 4), weights": lambda: derive(
        lambda x: ATTENTION(x, x, x), "B N 256", backward=True
    ),
    "nn.MultiheadAttention(256, 4), no weights": lambda: derive(
        lambda x: ATTENTION(x, x, x, need_weights=False), "B N 256", backward=True
    ),
    "nn.TransformerEncoderLayer, training step": lambda: derive(LAYER, "B N 256", backward=True),
}


def main() -> None:
    """Prints a line for each case."""
    derive(nn.ReLU(), "N")  # imports
    for name, case in CASES.items():
        start = time.perf_counter()
        found = case()
        print(f"{name:44} {time.perf_counter() - start:5.2f} s   {found.polynomial}")


if __name__ == "__main__":
    main()
