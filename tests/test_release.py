"""What a release says of itself agrees."""

import re
from pathlib import Path

import pytest
import yaml

from pytest_attnmem import __version__

ROOT = Path(__file__).parents[1]


def test_the_version_is_in_the_changelog_and_the_citation():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## \[([^]]+)\](?: - (\d{4}-\d\d-\d\d))?$", changelog, re.MULTILINE)
    assert versions[0] == ("Unreleased", "")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    released = (str(citation["version"]), str(citation["date-released"]))
    assert versions[1] == released
    assert released[0] == __version__
    links = dict(re.findall(r"^\[([^]]+)\]: (\S+)$", changelog, re.MULTILINE))
    assert {version for version, _ in versions} == links.keys()


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/workflows/*.yml")), ids=lambda p: p.name)
def test_a_workflow_gives_its_token_no_more_than_it_needs(path):
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"]["contents"] == "read"
