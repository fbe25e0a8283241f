"""Record cuDNN's answers: ``python tests/null/record_convolution_plans.py``, with the CUDA build.

``tests/data/cuda/<version>/convolution-plans.json`` has the workspaces in bytes that cuDNN plans,
by question and device, for the recorded convolutions and for ``convolution/models.py``. They come
from the planner itself, not from PyTorch; the tests hold one to the other.
"""

import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from pytest_attnmem import measure
from pytest_attnmem.backends.simulated.convolution.cudnn_plans import CudnnPlans, plans_path
from pytest_attnmem.certified.certificate import cudnn_of
from pytest_attnmem.nulldevice.planner_process import PlanFile
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import minor_version

TESTS = Path(__file__).parents[1]
SIMULATED = TESTS / "backends" / "simulated"
TORCH = minor_version(version("torch"))


def main():
    import recordings

    recorded = recordings.read("operators-convolutions")
    devices = recorded["devices"]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        found = [asked(device, recorded["calls"]) for device in devices]
    questions = dict.fromkeys(question for answers in found for question in answers)
    rows = [[question, [answers.get(question) for answers in found]] for question in questions]
    what = "workspaces in bytes that cuDNN plans for convolutions"
    file = recordings.save("convolution-plans", what, "workspaces", rows, devices=devices)
    print(file, len(rows))


def asked(device, calls):
    """Returns the answers to all questions for a device."""
    from described import arguments
    from models import MODELS
    from planned import results, settings_of, steps

    profile = find_profile(device)
    ask = CudnnPlans(profile, TORCH, os.environ).workspace
    for row in calls:
        args, _ = arguments(row, "meta")
        with settings_of(row):
            steps(row, args, results(row, args), profile, TORCH, ask)
    for name, program in MODELS.items():
        print(device, name, measure(program, backend=f"simulated:{device}").unmeasured)
    return PlanFile(plans_path(profile, cudnn_of(TORCH), os.environ)).read()


if __name__ == "__main__":
    sys.path[:0] = map(str, (TESTS, SIMULATED / "scratch", SIMULATED / "convolution"))
    main()
