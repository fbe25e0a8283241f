"""What the memory models of several kernels share: terms, and the two models of a kernel."""

from __future__ import annotations

from collections.abc import Mapping

from ..budgets.memory_model import KernelModel, MemoryModel, Phase

Q, K, V = "B*H*N*d*itemsize", "B*H*M*d*itemsize", "B*H*M*dv*itemsize"
OUT = "B*H*N*dv*itemsize"
#: The bytes of one element of sums, which are float32 for half inputs.
WIDE = "max(itemsize, 4)"
#: 1 for half inputs, whose blocks are converted when they are loaded.
HALF = "max(4//itemsize - 1, 0)"
#: A test's ``out.sum()``, and the gradient that its backward pass begins with.
LOSS = {"loss": "itemsize", "loss gradient": "itemsize"}
#: The gradients of k and v where they are added up in a wider dtype.
WIDE_DKV = {"dk": f"B*H*M*d*{WIDE}", "dv": f"B*H*M*dv*{WIDE}"}


def narrowed(kept: Mapping[str, str], done: str) -> tuple[Phase, ...]:
    """Returns a kernel's last steps, which narrow the gradients of k, called ``done``, and v."""
    return (
        Phase("dk.to(q.dtype)", {**kept, **WIDE_DKV, "narrow dk": f"{HALF}*{K}"}),
        Phase(
            "dv.to(q.dtype)", {**kept, done: K, "dv": WIDE_DKV["dv"], "narrow dv": f"{HALF}*{V}"}
        ),
    )


#: The gradients of a kernel that adds those of k and v up in a wider dtype, and its last steps.
GRADIENTS = {**LOSS, "dq": Q, **WIDE_DKV}
NARROWED = narrowed({**LOSS, "dq": Q}, "narrow dk")


def online_phases(again: str, held: Mapping[str, str], row: str, column: str) -> tuple[Phase, ...]:
    """Returns the steps of the online softmax of a block of queries, beside what is ``held``.

    ``row`` is the bytes of one number for each query of a block, ``column`` those for each key.
    """
    block = {**held, "q_i": f"{HALF}*{row}*d", "acc": f"{row}*dv"}
    k_j, v_j = f"{HALF}*{column}*d", f"{HALF}*{column}*dv"
    return (
        Phase(f"scores{again}", {**block, "k_j": k_j, "row_max, row_sum": f"2*{row}"}),
        Phase(f"softmax{again}", {**block, "row_max, new_max, row_sum, sum of p": f"4*{row}"}),
        Phase(f"acc{again}", {**block, "v_j": v_j, "row_max, new_max, row_sum": f"3*{row}"}),
    )


def kernel_model(
    name: str,
    forward: tuple[Phase, ...],
    training: tuple[Phase, ...],
    defaults: Mapping[str, int] | None = None,
) -> KernelModel:
    """Returns the models of a kernel: of its forward alone, and of forward plus backward."""
    return KernelModel(
        MemoryModel(f"{name} forward", forward, defaults or {}),
        MemoryModel(f"{name} training", training, defaults or {}),
    )
