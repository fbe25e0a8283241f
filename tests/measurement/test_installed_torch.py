"""The torch that is installed, and its certificate."""

import pytest
import torch

from pytest_attnmem.certified.certificate import release
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.measurement import installed_torch
from pytest_attnmem.measurement.installed_torch import (
    certificate,
    missing_forms,
    missing_rules,
    require_rules,
)
from pytest_attnmem.nulldevice import build


@pytest.fixture
def unknown(monkeypatch, tmp_path):
    """Has an unknown torch be installed, where the null device does not run."""

    def check():
        raise BackendUnavailable("not here")

    monkeypatch.setattr(torch, "__version__", "9.9.0")
    monkeypatch.setattr(build, "check", check)


def test_this_release_is_certified():
    assert certificate().torch == release(torch.__version__)
    assert certificate().commit == torch.version.git_version
    assert missing_rules() == missing_forms() == ""


@pytest.mark.parametrize("commit", ["Unknown", "", None])
def test_a_build_that_names_no_commit_is_that_of_the_release(monkeypatch, commit):
    monkeypatch.setattr(torch.version, "git_version", commit)
    assert missing_rules() == ""


def test_a_build_of_another_commit_is_not_certified(monkeypatch, unknown):
    monkeypatch.undo()
    monkeypatch.setattr(torch.version, "git_version", "1a2b3c4d5e6f")
    text = f"no rules for torch {release(torch.__version__)} (commit 1a2b3c4d5)"
    assert missing_forms() == f"{text}; run attnmem certify"


def test_closed_forms_need_every_operator(monkeypatch):
    from dataclasses import replace

    changed = replace(certificate(), refused={"aten.mm.default": "a trace"})
    monkeypatch.setattr(installed_torch, "certificate", lambda: changed)
    assert missing_rules() == ""
    assert missing_forms() == f"aten.mm.default changed in torch {changed.torch}; attnmem certify"


def test_the_null_device_takes_the_place_of_a_certificate(monkeypatch, unknown):
    assert missing_rules() == "no rules for torch 9.9.0; run attnmem certify"
    monkeypatch.setattr(build, "check", lambda: None)
    assert missing_rules() == ""
    assert missing_forms() == "no rules for torch 9.9.0; run attnmem certify"


def test_who_needs_rules_is_refused_with_something_to_use_instead(unknown):
    with pytest.raises(BackendUnavailable) as refused:
        require_rules("derive cannot answer", "use growth")
    assert str(refused.value) == (
        "derive cannot answer here: no rules for torch 9.9.0; run attnmem certify; use growth"
    )
