import sys

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice.planner_process import describe, find_cudnn

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
    with pytest.raises(BackendUnavailable, match=r'^pip install "pytest-attnmem\[cudnn\]"$'):
        describe(present)


def test_another_system_has_no_planner(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(BackendUnavailable, match=r"^its planner needs Linux, and this is darwin$"):
        find_cudnn()
