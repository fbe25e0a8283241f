"""The certificates of releases: those of the package, and those that were made on a machine."""

import json
from dataclasses import replace

import pytest

from pytest_attnmem.backends.certification.recipes import DEVICES, digest, lines_by_operator
from pytest_attnmem.certified.certificate import (
    certificate_of,
    cudnn_of,
    kept_folder,
    newest_for,
    packaged,
    release,
)
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.torch_releases import KNOWN, minor_version

PACKAGED = {one.torch: one for one in packaged()}
NEWEST = PACKAGED["2.15.0"]


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_each_known_version_has_a_certificate_of_all_recipes():
    assert {minor_version(name) for name in PACKAGED} == {*KNOWN}
    for one in PACKAGED.values():
        assert (one.recipes, one.devices) == (digest(), DEVICES)
        assert one.operators == len(lines_by_operator())
        assert one.calls > 40_000
        assert minor_version(f"{one.base}.0") == minor_version(one.torch)
        assert one.refused == {}


def test_a_certificate_takes_fifty_kibibytes_at_most(tmp_path):
    each = dict.fromkeys(lines_by_operator(), "x" * 60)  # if every operator changed
    assert replace(NEWEST, refused=each).write(tmp_path).stat().st_size < 50 << 10


@pytest.mark.parametrize("build", ["", "+cpu", "+cu132", "+rocm7.0", "+cxx11.abi"])
@pytest.mark.parametrize("commit", [NEWEST.commit, "", "Unknown"])
def test_a_build_of_the_release_has_its_certificate(build, commit):
    assert certificate_of(f"2.15.0{build}", commit) == NEWEST


@pytest.mark.parametrize(
    "version",
    ["2.15.7", "2.16.0", "2.15.0rc2", "2.15.0a0+3f75579.nv26.10", "2.15.0+git1a2b3c4", "master"],
)
def test_another_version_has_none(version):
    assert certificate_of(version, NEWEST.commit) is None


def test_another_commit_has_none():
    assert certificate_of("2.15.0", PACKAGED["2.13.0"].commit) is None


def test_a_certificate_made_here_comes_before_the_package_s():
    made = replace(NEWEST, refused={"aten.mm.default": "a trace"})
    assert made.write(kept_folder()) == kept_folder() / "2.15.0.json"
    assert certificate_of("2.15.0+cpu", NEWEST.commit) == made
    unknown = replace(NEWEST, torch="2.99.0", cudnn="10.1.0")
    assert cudnn_of((2, 99)) == ""
    unknown.write(kept_folder())
    assert cudnn_of((2, 99)) == "10.1.0"
    assert cudnn_of((2, 15)) == newest_for((2, 15)).cudnn


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "torch": 1}'])
def test_a_file_that_cannot_be_read_is_no_certificate(text):
    kept_folder().mkdir(parents=True)
    (kept_folder() / "2.98.0.json").write_text(text)
    assert certificate_of("2.98.0", "") is None


def test_the_file_says_what_it_is():
    found = json.loads((NEWEST.write(kept_folder())).read_text())
    assert [*found][:4] == ["schema", "torch", "commit", "base"]


def test_a_folder_that_cannot_be_made_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AttnMemError, match=r"^cannot write .*file/2\.15\.0\.json: File exists$"):
        NEWEST.write(tmp_path / "file")


def test_a_release_keeps_the_commit_of_a_source_tree():
    assert release("2.15.0+cu132") == "2.15.0"
    assert release("2.15.0+gitd0f2af8") == "2.15.0+gitd0f2af8"
