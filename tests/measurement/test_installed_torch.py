"""The torch that is installed, and the table of releases."""

import pytest
import torch

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.measurement.installed_torch import fingerprint, missing_rules, require_rules
from pytest_attnmem.torch_releases import FINGERPRINTS, RELEASES, minor_version


def test_the_commit_of_this_release_is_its_own():
    release = torch.__version__.partition("+")[0]
    assert RELEASES[release] == torch.version.git_version
    assert missing_rules() == ""


def test_the_fingerprint_of_this_release_is_its_own():
    assert fingerprint() == FINGERPRINTS[minor_version(torch.__version__)]


@pytest.mark.parametrize("commit", ["Unknown", "", None])
def test_a_build_that_names_no_commit_is_known_by_its_fingerprint(monkeypatch, commit):
    monkeypatch.setattr(torch.version, "git_version", commit)
    assert missing_rules() == ""


def test_a_patched_operator_shows(monkeypatch):
    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name != "aten::softmax"]
    monkeypatch.setattr(torch._C, "_jit_get_all_schemas", lambda: schemas)
    monkeypatch.setattr(torch.version, "git_version", "1a2b3c4d5e6f")
    assert missing_rules() == (
        f"no rules for torch {torch.__version__} (commit 1a2b3c4d5); known: 2.13 to 2.15"
    )


def test_a_build_without_the_list_of_operators_has_no_fingerprint(monkeypatch):
    monkeypatch.delattr(torch._C, "_jit_get_all_schemas")
    assert fingerprint() == ""


def test_who_needs_rules_is_refused_with_something_to_use_instead(monkeypatch):
    require_rules("derive cannot answer", "use growth")
    monkeypatch.setattr(torch, "__version__", "9.9.0")
    with pytest.raises(BackendUnavailable) as refused:
        require_rules("derive cannot answer", "use growth")
    assert str(refused.value) == (
        "derive cannot answer here: no rules for torch 9.9; known: 2.13 to 2.15; use growth"
    )
