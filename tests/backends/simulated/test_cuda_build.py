"""What a build of PyTorch for CUDA says of itself, on a simulated device."""

import torch

from pytest_attnmem.backends.simulated.torch_cuda.cuda_functions import build_patches
from pytest_attnmem.measurement.environment import describe
from pytest_attnmem.torch_releases import KNOWN, minor_version

#: What the builds on PyPI answer: CUDA's version, the same as a number, and cuDNN's.
ANSWERS = {
    (2, 13): ("13.0", 13000, 92000),
    (2, 14): ("13.0", 13000, 92400),
    (2, 15): ("13.2", 13020, 92600),
}


def test_each_version_answers_as_its_build_does():
    assert ANSWERS.keys() == {*KNOWN}
    for version, answers in ANSWERS.items():
        found = build_patches(version)
        cudnn = torch.backends.cudnn
        cuda = found[torch.version, "cuda"]
        assert answers == (
            cuda if torch.version.cuda is None else answers[0],  # this build's own answer
            found[torch._C, "_cuda_getCompiledVersion"](),
            found[cudnn, "version"](),
        )
        assert found[cudnn, "is_available"]()


def test_a_version_without_rules_answers_as_the_newest():
    assert build_patches((9, 9))[torch.backends.cudnn, "version"]() == ANSWERS[KNOWN[-1]][2]


def test_a_program_finds_a_build_for_cuda(run):
    def program():
        assert torch.version.cuda == ANSWERS[minor_version(torch.__version__)][0]
        assert torch.backends.cudnn.is_available()
        assert describe()["cuda"] == before  # the report says what is installed
        assert torch.cuda.get_device_properties(0).memory_bus_width == 5120

    before = torch.version.cuda
    assert run(program, "H100").unmeasured is None
    assert torch.version.cuda == before
