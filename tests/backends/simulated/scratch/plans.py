"""The plans of calls as text, in the words of the recordings (see ``described.py``)."""

from contextlib import nullcontext
from functools import cache
from itertools import product

from torch._subclasses import FakeTensorMode

from pytest_attnmem.backends.certification.described import new_storages, operator
from pytest_attnmem.backends.certification.null_calls import of_plan
from pytest_attnmem.backends.simulated.operators.op_rules import RULES, plan
from pytest_attnmem.backends.simulated.scratch.op_plan import OpCall, writes_into_targets
from pytest_attnmem.backends.simulated.scratch.pointwise import rule_by_kind
from pytest_attnmem.backends.simulated.scratch.workspaces import workspaces
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import minor_version

from .described import arguments

#: The operators whose outputs on meta tensors are not those of fakes, which take thrice the time.
FAKES_DIFFER = frozenset(
    f"aten.{name}"
    for name in (
        "_embedding_bag.default",
        "_embedding_bag_forward_only.default",
        "_fused_sgd_.default",
        "_native_batch_norm_legit.default",
        "_native_batch_norm_legit.no_stats",
        "fractional_max_pool3d_backward.default",
        "native_batch_norm.default",
        "native_layer_norm.default",
        "pixel_shuffle.default",
        "reflection_pad2d.default",
        "replication_pad2d.default",
    )
)


def has_rule(op):
    """Returns True for an operator with a rule; recordings have others too, for ``certify``."""
    names = (op,) if writes_into_targets(op) else (op, op.rpartition(".")[0])
    return any(name in RULES for name in names) or rule_by_kind(op) is not None


def plans(row, devices, versions):
    """Returns the trace of a call by version and device, ``{("2.13", "H100"): "out0:24 t0:512"}``.

    A trace is None if no rule knows the call. ``row`` is a recorded call:
    ``{"op": "aten.neg.default", "args": ["float32[2, 3]"]}``, perhaps with ``kwargs``,
    ``deterministic`` and ``cold``, for workspaces that are not yet there.
    """
    found, mode, with_data = {}, row.get("deterministic", False), "period" in row
    faked = row["op"] in FAKES_DIFFER and not with_data
    with _fake_mode() if faked else nullcontext():
        args, kwargs = arguments(row, "cpu" if faked or with_data else "meta")
        outputs = new_storages([args, kwargs], operator(row["op"])(*args, **kwargs))
        profiles = {device: find_profile(device) for device in devices}
        for (device, profile), version in product(profiles.items(), versions):
            rules = minor_version(f"{version}.0")
            steps = plan(OpCall(row["op"], tuple(args), kwargs, outputs, profile, mode, rules))
            libraries = workspaces(profile, rules, {})
            found[version, device] = None
            if steps is not None:
                cold = bool(row.get("cold"))
                found[version, device] = of_plan(steps, outputs, libraries, cold=cold)
    return found


@cache
def _fake_mode():
    """Returns one mode for all calls: each new one records a stack, and has caches to fill."""
    return FakeTensorMode()
