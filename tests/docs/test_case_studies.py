"""The commands of the case studies print what the page shows."""

import shlex

import pytest
import torch

from .page_walk import ROOT, blocks, calls, missing

COMMANDS = [
    call
    for block in blocks(ROOT / "docs" / "evidence" / "case-studies.md")
    for call in calls(block.text)
]

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13"), reason="the page shows torch 2.13"
)


@pytest.fixture
def two_threads():
    """PyTorch's threads on the machine of the page; the tiles of some kernels follow them."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.thorough
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[call[14:60] for call, _ in COMMANDS])
def test_a_command_prints_what_is_shown(command, shown, pytester, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    # What earlier tests compiled decides which numbers PyTorch compiles as constants.
    apart = "test_pytorch" in command
    run = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
    result = run("-pno:cacheprovider", *shlex.split(command)[1:])
    assert result.ret == 0
    assert not missing(shown, [line.rstrip() for line in result.outlines])


def test_each_file_is_on_the_page():
    files = {f"examples/case_studies/{p.name}" for p in (ROOT / "examples/case_studies").glob("*")}
    named = {shlex.split(command)[1] for command, _ in COMMANDS}
    assert named == {file for file in files if file.endswith(".py")}
    assert all(shown for _, shown in COMMANDS)
