"""Where the workspaces of a simulated device's convolutions come from, and why there are none."""

import json
import os

import pytest
import torch
from torch import nn

from pytest_attnmem import derive
from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.backends.simulated.convolution import cudnn_plans
from pytest_attnmem.backends.simulated.convolution.cudnn_plans import CudnnPlans, plans_path
from pytest_attnmem.certified.certificate import cudnn_of
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice.planner_process import PlanFile
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import KNOWN

A100, H100 = find_profile("A100-80GB"), find_profile("H100")


@pytest.fixture
def run():
    """Measures on a device of the test's own, which keeps a planner from session to session."""
    opened = {}

    def measured(program, profile="A100-80GB"):
        if profile not in opened:
            opened[profile] = PrimedBackend(open_backend(f"simulated:{profile}"), 0)
        return opened[profile].run(program)[0]

    return measured


class Planner:
    """A planner of that version, for which every workspace has 512 bytes."""

    started = 0

    def __init__(self, profile):
        type(self).started += 1
        self.version = cudnn_of(KNOWN[0])

    def ask(self, question):
        if question == "impossible":
            raise BackendUnavailable("cuDNN finds no plan")
        return 512

    def close(self):
        pass


@pytest.fixture
def planner(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(Planner, "started", 0)
    monkeypatch.setattr(cudnn_plans, "PlannerProcess", Planner)
    return Planner


def test_a_question_is_asked_once_in_all_sessions(planner):
    for session in range(2):
        plans = CudnnPlans(A100, KNOWN[0], {})
        assert [plans.workspace("question") for _ in range(2)] == [512, 512]
        assert planner.started == 1, session
    assert CudnnPlans(H100, KNOWN[0], {}).workspace("question") == 512
    assert planner.started == 2


def test_what_cudnn_does_not_plan_is_said_and_not_kept(planner):
    plans = CudnnPlans(A100, KNOWN[0], {})
    expected = "cuDNN plans this convolution: cuDNN finds no plan"
    assert plans.workspace("impossible") == expected
    assert not plans_path(A100, cudnn_of(KNOWN[0]), {}).exists()


def test_another_cudnn_than_pytorchs_is_refused_and_what_was_asked_before_is_known(planner):
    version = KNOWN[-1]
    PlanFile(plans_path(A100, cudnn_of(version), {})).append("known", 7)
    plans = CudnnPlans(A100, version, {})
    for _ in range(2):
        assert plans.workspace("question") == (
            f"cuDNN plans this convolution: torch {version[0]}.{version[1]} comes with cuDNN"
            f" {cudnn_of(version)}, and {cudnn_of(KNOWN[0])} is installed:"
            f' pip install "nvidia-cudnn-cu13=={cudnn_of(version)}.*"'
        )
    assert plans.workspace("known") == 7
    assert planner.started == 1


@pytest.mark.parametrize("name", ["TORCH_CUDNN_V8_API_DISABLED", "CUDNN_ERRATA_JSON_FILE"])
def test_a_variable_that_changes_the_question_is_refused(planner, name):
    found = CudnnPlans(A100, KNOWN[0], {name: "1"}).workspace("question")
    assert found == f"cuDNN plans this convolution, and {name} changes its plans: unset it"
    assert planner.started == 0


def test_the_file_is_of_one_device_one_cudnn_and_its_variables():
    paths = {
        *(
            plans_path(profile, cudnn_of(version), {})
            for profile in (A100, H100)
            for version in KNOWN
        ),
        plans_path(A100, cudnn_of(KNOWN[0]), {"NVIDIA_TF32_OVERRIDE": "0"}),
    }
    assert len(paths) == 2 * len(KNOWN) + 1
    assert plans_path(A100, cudnn_of(KNOWN[0]), {"HOME": "/"}) in paths


def test_a_torch_that_nobody_knows_has_no_cudnn(planner):
    found = CudnnPlans(A100, (2, 99), {}).workspace("question")
    assert found == "cuDNN plans this convolution, and nobody knows which cuDNN torch 2.99 has"


@pytest.fixture
def missing(monkeypatch, tmp_path, run):
    """Runs a convolution in a session without cuDNN's package."""

    def start(profile):
        raise BackendUnavailable('pip install "pytest-attnmem[cudnn]"')

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cudnn_plans, "PlannerProcess", start)

    def convolve(**options):
        layer = nn.Conv2d(3, 8, 3, device="cuda", **options)
        layer(torch.ones(2, 3, 17, 17, device="cuda"))

    return lambda **options: run(lambda: convolve(**options), "L4").unmeasured


def test_without_the_package_a_convolution_is_not_enforced_and_what_to_install_is_said(missing):
    expected = 'cuDNN plans this convolution: pip install "pytest-attnmem[cudnn]"'
    assert missing() == expected
    assert missing() == expected  # the operator is cached


def test_settings_of_cudnn_are_read_at_each_call(missing):
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        assert missing(stride=2) == (
            "torch.backends.cudnn.benchmark has the device time cuDNN's plans for a convolution:"
            " turn it off"
        )
    assert missing(stride=2).startswith("cuDNN plans this convolution")
    with torch.backends.cudnn.flags(enabled=False):
        assert missing(stride=2) == (
            "no model of aten.convolution.default; use backend='null' or 'cuda'"
        )


def test_the_settings_are_in_the_question(run, monkeypatch):
    asked = []
    monkeypatch.setattr(CudnnPlans, "workspace", lambda plans, text: asked.append(text) or 256)
    layers = [nn.Conv2d, nn.ConvTranspose2d]

    def program():
        for layer in layers:
            image = torch.ones(2, 4, 5, 5, device="cuda", requires_grad=True)
            layer(4, 4, 3, device="cuda", bias=False)(image).sum().backward()

    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False, deterministic=True):
        run(program)
    questions = [json.loads(text) for text in asked]
    kinds = [question["of"] for question in questions]
    assert kinds == ["forward", "input", "weight", "input", "forward", "weight"]
    assert not any(question["tf32"] for question in questions)
    assert all(question["deterministic"] for question in questions)
    assert os.environ.get("ATTNMEM_NULL_PROFILE") is None  # the session itself is on no device


def test_a_workspace_that_does_not_fit_is_not_enforced(run, monkeypatch):
    """PyTorch catches the error, and tries the next plan, which nobody asked for."""
    monkeypatch.setattr(CudnnPlans, "workspace", lambda plans, text: 1 << 40)

    def program():
        nn.Conv3d(2, 4, 3, device="cuda")(torch.ones(1, 2, 5, 5, 5, device="cuda"))

    assert run(program).unmeasured == (
        "the workspace of cuDNN's first plan for a convolution does not fit, and PyTorch then takes"
        " another plan"
    )


def test_the_closed_form_of_the_program_alone_asks_nobody(monkeypatch):
    monkeypatch.setattr(CudnnPlans, "workspace", lambda *_: pytest.fail("asked"))
    layer = nn.Conv1d(4, 8, 3, bias=False)
    assert (
        str(derive(layer, "B 4 N", sizes={"B": [1, 2, 3, 4], "N": [8, 9, 10, 11]}))
        == "32*B*N - 64*B"
    )
