"""``attnmem certify``, with answers in the place of the null devices."""

from unittest.mock import Mock

import pytest

from pytest_attnmem.backends.certification import certifying
from pytest_attnmem.backends.certification.recipes import DEVICES, lines_by_operator
from pytest_attnmem.certified.certificate import certificate_of, kept_folder
from pytest_attnmem.cli import main
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice import parts, torch_build

LAYER_NORM = "aten.native_layer_norm_backward.default"
DIFFERS = f"{LAYER_NORM}('float32[1, 3]') on H100: t0:12 -t0, and the rule says nothing"


@pytest.fixture(autouse=True)
def torch_2_16(monkeypatch, tmp_path):
    """Has the CUDA build of torch 2.16 be installed, with an empty cache of the user."""
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "version.py").write_text(
        "__version__ = '2.16.0+cu134'\ncuda = '13.4'\ngit_version = '1a2b3c4d5e6f'\n"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(torch_build, "find", lambda: torch_build.describe(folder, []))
    monkeypatch.setattr(parts, "lacking", lambda torch: iter(["triton"]))


@pytest.fixture
def null(monkeypatch):
    """Returns the operators that differ, by name, and the processes that were started."""
    state = {"differs": {}, "started": []}

    class Process:
        def __init__(self, profile, rules):
            state["started"].append((profile.name, rules))

        def ask(self, op):
            differs = state["differs"].get(op, "")
            return {"equal": 2 - bool(differs), "unplanned": 1, "differs": differs, "failed": False}

        def end(self):
            pass

    monkeypatch.setattr(certifying, "NullProcess", Process)
    return state


def test_all_operators_are_compared_on_each_device_and_the_result_is_kept(null, capsys):
    null["differs"][LAYER_NORM] = DIFFERS
    assert main(["certify"]) == 1
    count = len(lines_by_operator())
    assert {*null["started"]} == {(device, (2, 16)) for device in DEVICES}
    path = kept_folder() / "2.16.0.json"
    assert capsys.readouterr().out.splitlines() == [
        f"torch 2.16.0: {count - 1} of {count} operators as in the rules of 2.15"
        f" ({10 * count - 5} calls on 5 devices; {5 * count} without a plan)",
        f"  {LAYER_NORM} (new): {DIFFERS}",
        f"written: {path}",
    ]
    made = certificate_of("2.16.0+cpu", "1a2b3c4d5e6f")
    assert (made.base, made.cuda, dict(made.refused)) == ("2.15", "13.4", {LAYER_NORM: DIFFERS})


def test_what_was_refused_before_is_no_news(null, capsys, printed_json):
    null["differs"][LAYER_NORM] = DIFFERS
    assert main(["certify", "--device", "H100"]) == 1
    capsys.readouterr()
    told = printed_json("certify", "--device", "H100", "--json")
    assert (told["torch"], told["refused"], told["new"]) == ("2.16.0", {LAYER_NORM: DIFFERS}, [])
    assert told["file"] == str(kept_folder() / "2.16.0.json")


def test_operators_may_be_named_and_then_nothing_is_kept(null, capsys):
    assert main(["certify", "mm", LAYER_NORM, "--device", "T4", "--rules", "2.14"]) == 0
    assert capsys.readouterr().out == (
        "torch 2.16.0: 4 of 4 operators as in the rules of 2.14 (8 calls on 1 device; 4 without a"
        " plan)\n"
    )
    assert null["started"] == [("T4", (2, 14))]
    assert not kept_folder().exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["no_such"], "no recorded call is of operator 'no_such'"),
        (["--rules", "new"], "--rules is 'new'; expected a version such as 2.15"),
        (["--device", "H99"], "unknown device 'H99'"),
    ],
)
def test_a_mistake_is_an_error_of_one_line(null, refusal, words, text):
    assert text in refusal("certify", *words)


def test_libraries_that_operators_call_must_be_there(null, monkeypatch, refusal):
    monkeypatch.setattr(parts, "lacking", lambda torch: iter(["cudnn", "nvrtc"]))
    assert refusal("certify") == (
        "some operators need cudnn, nvrtc: attnmem install null --with cudnn --with nvrtc"
    )
    assert main(["certify", "mm"]) == 0


def test_a_machine_without_the_null_device_is_told_so(monkeypatch, refusal):
    why = "the null device needs the CUDA build of torch"
    monkeypatch.setattr(torch_build, "find", Mock(side_effect=BackendUnavailable(why)))
    assert refusal("certify") == why
