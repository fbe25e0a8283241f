"""Asks PyTorch itself, on the null device, how it attends. Run by ``record_attention.py``."""

import contextlib

import cases
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

aten = torch.ops.aten
CODES = {0: "m", 1: "f", 2: "e", 3: "c"}
NO_KERNEL, NO_BACKEND = "No available kernel", "No viable backend"
#: What a device says to a call that it has no kernel for.
UNABLE = (NO_KERNEL, NO_BACKEND, "no kernel found", "only supports Ampere", "not supported")
FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def choices():
    """A letter for each question: math, flash, efficient, cuDNN, - none allowed, x none can."""
    return "".join(map(choice, cases.questions()))


def choice(case):
    query, key, value, mask = cases.inputs(case, "cuda")
    with setting(case["setting"]):
        try:
            taken = torch._fused_sdp_choice(
                query,
                key,
                value,
                mask,
                case["dropout"],
                case["causal"],
                enable_gqa=case["gqa"],
            )
        except RuntimeError as error:
            if NO_KERNEL in str(error):
                return "x"
            if NO_BACKEND in str(error):
                return "-"
            raise
    return CODES[taken]


@contextlib.contextmanager
def setting(name):
    """The switches as a program would set them."""
    flash, efficient, math = FUSED
    cudnn = SDPBackend.CUDNN_ATTENTION
    allowed = {
        "no flash": [efficient, math, cudnn],
        "no cudnn": FUSED,
        "efficient only": [efficient],
        "flash only": [flash],
        "cudnn only": [cudnn],
        "none": [],
    }
    with contextlib.ExitStack() as stack:
        if name in allowed:
            stack.enter_context(sdpa_kernel(allowed[name]))
        elif name == "efficient first":
            order = [efficient, math, flash, cudnn]
            stack.enter_context(sdpa_kernel(order, set_priority=True))
        elif name == "no grad":
            stack.enter_context(torch.no_grad())
        elif name == "deterministic":
            torch.use_deterministic_algorithms(True)
            stack.callback(torch.use_deterministic_algorithms, False)
        yield


def operators():
    """Events of each operator of each case that runs here."""
    rows = []
    for case in cases.calls():
        torch.use_deterministic_algorithms(case.get("deterministic", False), warn_only=False)
        for operator in cases.OPERATORS:
            arguments = cases.arguments(operator, case, "cuda")
            if arguments is None:
                continue
            with torch.no_grad():
                told = events(lambda: getattr(aten, operator)(*arguments))  # noqa: B023
            if told is not None:
                rows.append([operator, case, told])
    return rows


def calls():
    """Events of ``scaled_dot_product_attention`` and its backward, by whichever backend."""
    rows = []
    for case, backend in cases.attended():
        query, key, value, mask = cases.inputs(case, "cuda")
        full = {**cases.USUAL, **case}
        result = []

        def attend():
            result.append(
                F.scaled_dot_product_attention(
                    query, key, value, mask, full["dropout"], full["causal"],
                    enable_gqa=full["Hkv"] is not None,
                )
            )  # fmt: skip

        with sdpa_kernel([getattr(SDPBackend, cases.BACKENDS[backend])]):
            forward = events(attend)
        if forward is None:
            continue
        wanting = [one for one in (query, key, value, mask) if one is not None and one.requires_grad]
        grad = torch.empty_like(result[0])
        backward = None
        if wanting:
            backward = events(lambda: torch.autograd.backward(result, grad))  # noqa: B023
        rows.append([case, backend, forward, backward])
    return rows


def events(call):
    """What *call* allocates and frees, in order; None where it cannot run here."""
    torch.cuda.memory._record_memory_history(context=None, max_entries=1 << 16)
    try:
        result = call()
    except RuntimeError as error:
        if not any(phrase in str(error) for phrase in UNABLE):
            raise
        return None
    finally:
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        torch.cuda.memory._record_memory_history(enabled=None)
    del result
    told, alive = [], {}
    for event in trace:
        if event["action"] == "alloc":
            alive[event["addr"]] = sum(word[0] == "+" for word in told)
            told.append(f"+{event['size']}")
        elif event["action"] == "free_requested":
            told.append(f"-{alive.pop(event['addr'], '')}")
    return " ".join(told)
