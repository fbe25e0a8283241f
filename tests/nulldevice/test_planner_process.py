"""The process that plans, with a library that stands for cuDNN, and with cuDNN where it is."""

import json
import sys

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice import planner_process, torch_build
from pytest_attnmem.nulldevice.planner_process import CudnnPackage, PlannerProcess
from pytest_attnmem.profiles import find_profile

PROGRAM = """
import json, os, sys
print(json.dumps({"version": 92000}), flush=True)
for line in sys.stdin:
    if line == "stop\\n":
        sys.exit(3)
    preloaded, plans = os.environ.get("LD_PRELOAD"), os.environ["ATTNMEM_NULL_PLANS"]
    size = {"workspace": len(line)} if (preloaded, plans) == (None, "") else {}
    print(json.dumps({"refused": "cuDNN finds no plan"} if line == "none\\n" else size), flush=True)
"""


@pytest.fixture
def planner(tmp_path, monkeypatch):
    program = tmp_path / "planner.py"
    program.write_text(PROGRAM)
    package = CudnnPackage((tmp_path / "libcudnn.so.9",), 13)
    monkeypatch.setattr(planner_process, "_PROGRAM", program)
    monkeypatch.setattr(planner_process, "build_alone", lambda major, packages: tmp_path)
    monkeypatch.setattr(planner_process, "find_cudnn", lambda: package)
    process = PlannerProcess(find_profile("A100-80GB"))
    yield process
    process.close()


def test_it_says_its_version_and_answers(planner):
    assert planner.version == "9.20.0"
    assert [planner.ask("four"), planner.ask("")] == [5, 1]


def test_what_cudnn_does_not_say_is_an_error_and_the_next_question_is_answered(planner):
    with pytest.raises(BackendUnavailable, match=r"^cuDNN finds no plan$"):
        planner.ask("none")
    assert planner.ask("four") == 5


def test_a_planner_that_ends_says_so_each_time(planner):
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match=r"^its planner ended with exit code 3$"):
            planner.ask("stop")


def test_a_planner_that_is_silent_is_ended(planner, monkeypatch):
    monkeypatch.setattr(planner_process, "_PATIENCE", 0)
    monkeypatch.setattr(planner_process.select, "select", lambda *_: ([], [], []))
    with pytest.raises(BackendUnavailable, match=r"^its planner did not answer in 0 seconds$"):
        planner.ask("four")


#: An image, a kernel and the result, of which an A100 needs 51 328 bytes; every cuDNN agrees.
QUESTION = {
    "of": "forward",
    "dtype": "float32",
    "x": [[2, 16, 28, 28], [12544, 784, 28, 1], 32],
    "w": [[32, 16, 3, 3], [144, 9, 3, 1], 32],
    "y": [[2, 32, 28, 28], [25088, 784, 28, 1], 32],
    "stride": [1, 1],
    "padding": [1, 1],
    "dilation": [1, 1],
    "tf32": True,
    "deterministic": False,
}


def test_the_installed_cudnn_plans_or_the_extra_is_named():
    cudnn = [path for root in torch_build.packages() for path in root.glob("*/lib/libcudnn.so.9")]
    if not cudnn or sys.platform != "linux":
        with pytest.raises(BackendUnavailable, match=r"pytest-attnmem\[cudnn\]|needs Linux"):
            PlannerProcess(find_profile("A100-80GB"))
        return
    process = PlannerProcess(find_profile("A100-80GB"))
    assert process.ask(json.dumps(QUESTION)) == 51_328
    with pytest.raises(BackendUnavailable, match=r"^cuDNN does not take this convolution$"):
        process.ask(json.dumps({**QUESTION, "y": [[2, 32, 9, 9], [2592, 81, 9, 1], 32]}))
    process.close()
