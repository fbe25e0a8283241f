"""Recorded convolutions, and the answers of cuDNN's planner to the questions that they ask."""

import contextlib
import os

import torch
from recordings import INSTALLED, read

from pytest_attnmem.backends.simulated.convolution import rules, shapes
from pytest_attnmem.backends.simulated.convolution.cudnn_plans import plans_path
from pytest_attnmem.backends.simulated.scratch.op_plan import OpCall
from pytest_attnmem.certified.certificate import cudnn_of
from pytest_attnmem.nulldevice.planner_process import PlanFile
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import minor_version

FORWARD = "aten.convolution.default"


@contextlib.contextmanager
def settings_of(row):
    """Runs the body with the settings of a recorded call."""
    tf32 = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = row.get("allow_tf32", True)
    torch.use_deterministic_algorithms(row.get("deterministic", False))
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = tf32
        torch.use_deterministic_algorithms(False)


def results(row, args):
    """Returns the tensors that a call returns, on ``meta``."""
    forward = row["op"] == FORWARD
    made = (shapes.forward if forward else shapes.backward)(*args)
    return tuple(one for one in ((made,) if forward else made) if one is not None)


def steps(row, args, outputs, profile, version, ask):
    """Returns the plan of a call; None if no rule knows it."""
    rule = rules.forward if row["op"] == FORWARD else rules.backward
    return rule(OpCall(row["op"], tuple(args), {}, outputs, profile, False, version, ask))


def answers(version=INSTALLED):
    """Returns cuDNN's workspaces in bytes by device and question."""
    recorded = read("convolution-plans", version)
    rows = recorded["workspaces"]
    return {
        device: {question: found[place] for question, found in rows if found[place] is not None}
        for place, device in enumerate(recorded["devices"])
    }


def keep_answers():
    """Writes the answers into the user's cache, as a session would that asked cuDNN itself."""
    cudnn = cudnn_of(minor_version(f"{INSTALLED}.0"))
    for device, found in answers().items():
        file = PlanFile(plans_path(find_profile(device), cudnn, os.environ))
        for question, nbytes in found.items():
            file.append(question, nbytes)
