"""Asks PyTorch itself, on the null device, how it attends. Run by ``record_attention.py``."""

import contextlib

import cases
import cudnn_cases
import random_questions
import recordings
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

aten = torch.ops.aten
CODES = {0: "m", 1: "f", 2: "e", 3: "c"}
NO_KERNEL, NO_BACKEND = "No available kernel", "No viable backend"
#: The errors of a device that has no kernel for a call.
UNABLE = (NO_KERNEL, NO_BACKEND, "no kernel found", "only supports Ampere", "not supported")
NAMED = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def choices():
    """Returns a letter for each call: math, flash, efficient, cuDNN, - none allowed, x none can."""
    return "".join(map(choice, cases.questions()))


def choice(case):
    query, key, value, mask = cases.inputs(case, "cuda")
    with setting(case["setting"]):
        return taken(query, key, value, mask, case)


def taken(query, key, value, mask, case):
    dropout, causal = case["dropout"], case["causal"]
    try:
        return CODES[
            torch._fused_sdp_choice(
                query, key, value, mask, dropout, causal, enable_gqa=case["gqa"]
            )
        ]
    except RuntimeError as error:
        if NO_KERNEL in str(error):
            return "x"
        if NO_BACKEND in str(error):
            return "-"
        raise


def random_choices():
    """Returns a letter for each random call."""
    return "".join(map(random_choice, random_questions.questions()))


def random_choice(case):
    inputs = (described(one, case["dtype"]) for one in case["tensors"])
    mask = case["mask"] and described(case["mask"], case["mask"]["dtype"])
    asked = case["setting"]
    torch.use_deterministic_algorithms(asked["deterministic"])
    on = [NAMED[name] for name in asked["order"] or asked["on"]]
    usual = len(on) == len(NAMED) and not asked["order"]
    switched = sdpa_kernel(on, set_priority=bool(asked["order"]))
    with contextlib.nullcontext() if usual else switched, torch.set_grad_enabled(asked["grad"]):
        return taken(*inputs, mask, case)


def described(facts, dtype):
    """Returns a tensor of these facts."""
    shape, strides, offset = facts["shape"], facts["strides"], facts["offset"]
    last = sum(step * max(size - 1, 0) for size, step in zip(shape, strides, strict=True))
    whole = torch.empty(offset + last + 1, dtype=getattr(torch, dtype), device="cuda")
    return whole.as_strided(shape, strides, offset).requires_grad_(facts["grad"])


@contextlib.contextmanager
def setting(name):
    """Sets the switches as a program would."""
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
    """Returns the events of each recorded call of an operator that runs here."""
    rows, known = [], recordings.read("attention-operators", recordings.VERSIONS[0])["devices"]
    for operator, case, _ in known["A100-80GB"]:  # which runs all of them
        arguments = cases.arguments(operator, case, "cuda")
        if arguments is not None:
            told = called(getattr(aten, operator), arguments, case.get("deterministic", False))
            if told is not None:
                rows.append([operator, case, told])
    return rows


def called(operator, arguments, deterministic):
    torch.use_deterministic_algorithms(deterministic)
    try:
        with torch.no_grad():
            return events(lambda: operator(*arguments))
    finally:
        torch.use_deterministic_algorithms(False)


def calls():
    """Returns the events of ``scaled_dot_product_attention`` and its backward, by any backend."""
    one = torch.ones(2, 2, device="cuda", requires_grad=True)
    (one @ one).sum().backward()  # creates the workspaces of cuBLAS
    told = ([case, backend, *attended(case, backend)] for case, backend in cases.attended())
    return [row for row in told if row[2] is not None]


def attended(case, backend):
    """Returns the events of forward and backward, or None if the call cannot run."""
    given, keywords = cases.call(case, "cuda")
    result = []
    with sdpa_kernel([getattr(SDPBackend, cases.BACKENDS[backend])]):
        forward = events(lambda: result.append(F.scaled_dot_product_attention(*given, **keywords)))
    if forward is None or not result[0].requires_grad:
        return forward, None
    grad = torch.empty_like(result[0])
    return forward, events(lambda: torch.autograd.backward(result, grad))


def cudnn():
    """Returns the peaks of each call of cuDNN's attention, or why there are none."""
    return [cudnn_cases.peaks(call) for call in cudnn_cases.calls()]


def events(call):
    """Returns the allocations and frees of *call* in order, or None if it cannot run here."""
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
