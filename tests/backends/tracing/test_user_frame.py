"""The line of a program that a report shows first."""

from pathlib import Path

import pytest
import torch

from pytest_attnmem.backends.tracing.tensor_origin import user_frame

TORCH = (f"{Path(torch.__file__).parent}/functional.py", 7, "einsum")
EINOPS = ("/env/site-packages/einops/_backends.py", 291, "einsum")
SHARED = ("/srv/shared/ops.py", 5, "product")
ATTENTION = ("/srv/repo/attn.py", 41, "attend")
TEST = ("/srv/repo/test_attn.py", 9, "test_attend")

pytestmark = pytest.mark.usefixtures("project_root")


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([TORCH, ATTENTION, TEST], ("attn.py:41", "attend", "")),
        ([TORCH, EINOPS, ATTENTION, TEST], ("attn.py:41", "attend", "einops/_backends.py:291")),
        ([SHARED, ATTENTION], ("attn.py:41", "attend", "ops.py:5")),
        ([EINOPS, SHARED], ("ops.py:5", "product", "einops/_backends.py:291")),
        ([TORCH, EINOPS], ("_backends.py:291", "einsum", "")),
        ([TORCH], ("", "", "")),
    ],
    ids=["project", "by a library", "by a shared file", "no project", "library", "torch"],
)
def test_the_line(frames, expected):
    assert user_frame(frames) == expected
