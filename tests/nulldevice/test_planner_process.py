"""The process that plans, with a library that stands for cuDNN, and with cuDNN where it is."""

import json
import sys

import pytest
from unavailable import refusal

from pytest_attnmem.nulldevice import planner_process, torch_build
from pytest_attnmem.nulldevice.planner_process import (
    CudnnPackage,
    PlanFile,
    PlannerProcess,
    describe,
    find_cudnn,
)
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
    assert refusal(planner.ask, "none") == "cuDNN finds no plan"
    assert planner.ask("four") == 5


def test_a_planner_that_ends_says_so_each_time(planner):
    for _ in range(2):
        assert refusal(planner.ask, "stop") == "its planner ended with exit code 3"


def test_a_planner_that_is_silent_is_ended(planner, monkeypatch):
    monkeypatch.setattr(planner_process, "_PATIENCE", 0)
    monkeypatch.setattr(planner_process.select, "select", lambda *_: ([], [], []))
    assert refusal(planner.ask, "four") == "its planner did not answer in 0 seconds"


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
        text = refusal(PlannerProcess, find_profile("A100-80GB"))
        assert "pytest-attnmem[cudnn]" in text or "needs Linux" in text
        return
    process = PlannerProcess(find_profile("A100-80GB"))
    assert process.ask(json.dumps(QUESTION)) == 51_328
    other = json.dumps({**QUESTION, "y": [[2, 32, 9, 9], [2592, 81, 9, 1], 32]})
    assert refusal(process.ask, other) == "cuDNN does not take this convolution"
    process.close()


def test_answers_are_read_again_in_another_session(tmp_path):
    path = tmp_path / "cudnn" / "plans.txt"
    assert PlanFile(path).read() == {}
    PlanFile(path).append('{"of":"forward"}', 512)
    PlanFile(path).append('{"of":"input"}', 0)
    assert PlanFile(path).read() == {'{"of":"forward"}': 512, '{"of":"input"}': 0}


def test_a_damaged_line_is_left_out(tmp_path):
    path = tmp_path / "plans.txt"
    for number in range(3):
        PlanFile(path).append(f"question {number}", number)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b" 1 question 1", b" 7 question 1")[:-4] + b"\n\xff\0half a li")
    assert PlanFile(path).read() == {"question 0": 0}
    PlanFile(path).append("question 1", 1)
    assert PlanFile(path).read() == {"question 0": 0}  # the torn line takes the next with it
    PlanFile(path).append("question 1", 1)
    assert PlanFile(path).read() == {"question 0": 0, "question 1": 1}


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path):
    (tmp_path / "file").touch()
    PlanFile(tmp_path / "file" / "plans.txt").append("question", 1)
    assert PlanFile(tmp_path / "file" / "plans.txt").read() == {}


FILES = (
    *("cu13/lib/libcublasLt.so.13", "cu13/lib/libnvrtc-builtins.so.13.0"),
    *("cu13/lib/libnvrtc.so.13", "cudnn/lib/libcudnn.so.9"),
)


def install(root, *files):
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return [root]


def test_cudnn_is_loaded_after_what_it_opens_by_name(tmp_path):
    found = describe(install(tmp_path, *FILES))
    assert [str(path.relative_to(tmp_path)) for path in found.libraries] == [*FILES]
    assert found.major == 13


@pytest.mark.parametrize("missing", FILES)
def test_a_missing_package_is_named_by_the_extra(tmp_path, missing):
    present = install(tmp_path, *(name for name in FILES if name != missing))
    assert refusal(describe, present) == 'pip install "pytest-attnmem[cudnn]"'


def test_another_system_has_no_planner(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert refusal(find_cudnn) == "its planner needs Linux, and this is darwin"
