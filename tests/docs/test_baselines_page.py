"""``docs/how-to/baselines.md`` shows what happens."""

import re
from pathlib import Path

import pytest
import torch

from pytest_attnmem.baselines.entries import State
from pytest_attnmem.plugin.options import OPTIONS

#: The page shows torch 2.13; another version needs the same here, and its name is as long.
RECORDED, VERSION = "2.13", ".".join(torch.__version__.split(".")[:2])
PAGE = (
    (Path(__file__).parents[2] / "docs" / "how-to" / "baselines.md")
    .read_text("utf-8")
    .replace(f"torch{RECORDED}", f"torch{VERSION}")
)

BEFORE = """\
import torch


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ v
"""
AFTER = """\
import torch


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    past = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    masked = scores.masked_fill(~past, float("-inf"))
    weights = torch.softmax(masked, dim=-1)
    return weights @ v
"""
TRAINING = """
def test_training(attnmem, qkv):
    q, k, v = qkv(4, 16, 4096, 128, requires_grad=True)
    with attnmem.region("forward"):
        out = attention(q, k, v)
    with attnmem.region("backward"):
        out.sum().backward()
"""


def blocks(language: str = "") -> list[list[str]]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in found]


def session(pytester: pytest.Pytester, *options: str) -> list[str]:
    arguments = ("-pno:cacheprovider", "--attnmem-backend=simulated:H100", *options)
    return [line.rstrip() for line in pytester.runpytest_inprocess(*arguments).outlines]


def test_what_the_page_shows_happens(pytester: pytest.Pytester) -> None:
    imports = "import pytest\nfrom attn import attention\n\n"
    test = "\n".join(blocks("python")[0])
    pytester.syspathinsert()
    pytester.makepyfile(attn=BEFORE, test_attn=f"{imports}{test}\n{TRAINING}")
    path = pytester.path / "attnmem-baseline.json"
    first = session(pytester, "--attnmem-update=all")
    assert [line for line in blocks("console")[0][1:] if line.rstrip() not in first] == []
    before = path.read_text("utf-8").splitlines()

    pytester.makepyfile(attn=AFTER)
    (failure,) = (block for block in blocks() if block and block[0].startswith("peak "))
    failed = session(pytester)
    assert [line for line in failure if line not in failed] == []

    path.write_text("\n".join(before).replace(f" torch{VERSION}", " torch2.0"), "utf-8")
    upgraded = session(pytester)
    (told,) = (line for line in PAGE.splitlines() if " tests need more" in line)
    assert told.replace("2.13, this is 2.15", f"2.0, this is {VERSION}") in upgraded
    path.write_text("\n".join(before), "utf-8")

    session(pytester, "--attnmem-update=all", "-k", "test_attention")
    after = path.read_text("utf-8").splitlines()
    shown = blocks("diff")[0]
    assert [line[1:] for line in shown if line[0] == "-"] == before[1:2]
    assert [line[1:] for line in shown if line[0] == "+"] == after[1:2]
    assert [line[1:] for line in shown if line[0] == " "] == [before[0], before[2]]
    assert before[2:] == after[2:]


def test_every_state_and_every_update_is_listed() -> None:
    (update,) = (option for option in OPTIONS if option.name == "update")
    for name in (*(state.value for state in State), *update.choices):
        assert f"| `{name}` |" in PAGE
