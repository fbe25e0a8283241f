"""``attnmem compare``: the table, the Markdown, the JSON and the exit code."""

import json
from dataclasses import replace

import pytest

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.cli import main
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.markdown import LIMIT
from pytest_attnmem.report.record import Record

from .sessions import ROW, write

KIB = 1024


def named(name, kib=1, **changes):
    return replace(ROW, nodeid=f"a.py::{name}", peak_bytes=kib * KIB, **changes)


BROKEN = named(
    "broken", 3, outcome=Outcome.OVER, reason="peak 3.0 KiB exceeds budget 2.0 KiB (1.5x) on cpu"
)
SKIPPED = Record("a.py::skipped", outcome=Outcome.NOT_ENFORCED, reason="skipped: no | GPU")
OLD = (
    *(named("same"), named("grew", 100), named("shrank", 4), named("broken", 2)),
    *(named("skipped"), named("removed"), named("moved")),
)
NEW = (
    *(named("same"), named("grew", 200), named("shrank", 3), BROKEN, SKIPPED, named("added")),
    named("moved", backend="null:H100", device="cuda:0"),
)


@pytest.fixture
def files(tmp_path):
    old = write(tmp_path / "old.json", *OLD, torch="2.6.0")
    return [old, write(tmp_path / "new.json", *NEW)]


@pytest.fixture
def compared(capsys):
    """Returns the exit code and the lines."""

    def run(*arguments):
        code = main(["compare", *arguments])
        printed = capsys.readouterr()
        assert printed.err == ""
        return code, [line.rstrip() for line in printed.out.splitlines()]

    return run


def test_the_table(files, compared):
    reason = "peak 3.0 KiB exceeds budget 2.0 KiB (1.5x) on cpu"
    assert compared(*files) == (
        1,
        [
            "4 of 6 tests failed the comparison: 1 now over, 1 no longer measured, 1 removed,"
            " 1 grew, 1 shrank, 1 added, 1 measured elsewhere, 1 unchanged.",
            "torch 2.6.0 → 2.7.1: the upgrade made these changes, if the code is the same",
            "",
            "test             old KiB    new KiB           Δ     Δ %",
            "-------------  ---------  ---------  ----------  ------  " + "-" * (len(reason) + 10),
            f"a.py::broken         2.0        3.0    +1.0 KiB   +50.0  now over: {reason}",
            "a.py::skipped        1.0          -"
            "                      no longer measured: skipped: no | GPU",
            "a.py::removed        1.0          -                      removed",
            "a.py::grew         100.0      200.0  +100.0 KiB  +100.0  grew",
            "a.py::shrank         4.0        3.0    -1.0 KiB   -25.0  shrank",
            "a.py::added            -        1.0                      added",
            "a.py::moved          1.0        1.0"
            "                      measured elsewhere: cpu → null:H100",
        ],
    )


def test_the_markdown(files, compared):
    assert compared(*files, "--markdown", "--fail-on", "2%+100KiB") == (
        1,
        [
            "**3 of 6 tests failed the comparison**: 1 now over, 1 no longer measured, 1 removed,"
            " 1 grew within the tolerance, 1 shrank, 1 added, 1 measured elsewhere, 1 unchanged.",
            "",
            "torch 2.6.0 → 2.7.1: the upgrade made these changes, if the code is the same.",
            "",
            "| test | old KiB | new KiB | Δ | Δ % |  |",
            "|---|--:|--:|--:|--:|---|",
            "| `a.py::broken` | 2.0 | 3.0 | +1.0 KiB | +50.0 | **now over: `peak 3.0 KiB exceeds"
            " budget 2.0 KiB (1.5x) on cpu`** |",
            "| `a.py::skipped` | 1.0 | - |  |  | **no longer measured: `skipped: no \\| GPU`** |",
            "| `a.py::removed` | 1.0 | - |  |  | **removed** |",
            "| `a.py::grew` | 100.0 | 200.0 | +100.0 KiB | +100.0 | grew within the tolerance |",
            "| `a.py::shrank` | 4.0 | 3.0 | -1.0 KiB | -25.0 | shrank |",
            "| `a.py::added` | - | 1.0 |  |  | added |",
            "| `a.py::moved` | 1.0 | 1.0 |  |  | measured elsewhere: `cpu → null:H100` |",
        ],
    )


def test_the_json(files, compared):
    code, lines = compared(*files, "--json", "--fail-on", "1 KiB")
    data = json.loads("\n".join(lines))
    assert (code, data["failed"], data["schema"], data["tolerance"]) == (1, True, 1, "1KiB")
    assert data["counts"]["grew"] == data["counts"]["unchanged"] == 1
    assert data["environment"] == {"torch": ["2.6.0", "2.7.1"]}
    assert data["upgrade"] == {"from": "2.6.0", "to": "2.7.1", "workspaces": []}
    assert [change["nodeid"] for change in data["changes"] if change["fails"]] == [
        *("a.py::broken", "a.py::skipped", "a.py::removed", "a.py::grew"),
    ]
    new = {"bytes": None, "place": "", "outcome": "not enforced", "reason": "skipped: no | GPU"}
    assert data["changes"][1] == {
        "nodeid": "a.py::skipped",
        "region": "",
        "metric": "peak",
        "fate": "no longer measured",
        "fails": True,
        "delta_bytes": None,
        "operators": {},
        "terms": "",
        "old": {"bytes": 1024, "place": "cpu", "outcome": "within", "reason": ""},
        "new": new,
    }
    assert data["changes"][5]["old"] is None


def held(nbytes, op):
    return Held(nbytes, (nbytes,), "uint8", op, "a.py:3")


SMALL, PLAIN = held(KIB, "randn"), named("plain", 9)


def on_two_versions(path, *new, **facts):
    """Files of the same tests on torch 2.13, where the product keeps a workspace, and on 2.15."""
    row = replace(ROW, nodeid="a.py::product", held=(SMALL,), workspace_bytes=64 * KIB)
    old = (row, replace(PLAIN, workspace_bytes=64 * KIB))
    changed = new or (
        replace(row, peak_bytes=33 * KIB, held=(SMALL, held(32 * KIB, "mm")), workspace_bytes=0),
        replace(PLAIN, peak_bytes=9 * KIB + 16),
    )
    return [
        write(path / "old.json", *old, torch="2.13.0+cu130", cuda="13.0"),
        write(path / "new.json", *changed, **{"torch": "2.15.0+cu132", "cuda": "13.2", **facts}),
    ]


def test_an_upgrade_is_told_with_its_operators_and_workspaces(tmp_path, compared):
    files = on_two_versions(tmp_path)
    code, (answer, head, *lines) = compared(*files, "--fail-on", "2%+1KiB")
    assert code == 1
    assert answer == (
        "1 of 2 tests failed the comparison: 1 grew (beyond 2%+1KiB), 1 grew within the tolerance."
    )
    assert head == (
        "torch 2.13.0+cu130 → 2.15.0+cu132: the upgrade made these changes, if the code is the same"
    )
    assert [line.split("  ")[-1].strip() for line in lines[3:]] == [
        *("grew: mm +32.0 KiB", "grew within the tolerance", ""),
        "workspaces kept outside of 2 tests on cpu: 64.0 KiB → 0 B",
        "cuda: 13.0 → 13.2",
    ]
    _, lines = compared(*files, "--markdown")
    assert lines[2] == f"{head}."
    assert (
        "| `a.py::product` | 1.0 | 33.0 | +32.0 KiB | >+999 | **grew: `mm +32.0 KiB`** |" in lines
    )
    assert lines[-2:] == [
        "workspaces kept outside of 2 tests on `cpu`: 64.0 KiB → 0 B",
        "cuda: `13.0` → `13.2`",
    ]
    code, lines = compared(*files, "--json", "--fail-on", "1MiB")
    data = json.loads("\n".join(lines))
    assert (code, data["failed"]) == (0, False)
    assert data["upgrade"] == {
        "from": "2.13.0+cu130",
        "to": "2.15.0+cu132",
        "workspaces": [{"place": "cpu", "old_bytes": 64 * KIB, "new_bytes": 0, "tests": 2}],
    }
    assert [change["operators"] for change in data["changes"]] == [{"mm": 32 * KIB}, {}]


def test_a_downgrade_another_build_and_an_upgrade_without_changes_are_told_apart(
    tmp_path, compared
):
    code, lines = compared(*reversed(on_two_versions(tmp_path)))
    assert code == 0
    assert lines[1].startswith("torch 2.15.0+cu132 → 2.13.0+cu130: the downgrade made these")
    _, lines = compared(*on_two_versions(tmp_path, torch="2.13.0+cpu"))
    assert "upgrade" not in "".join(lines)
    assert lines[4].endswith("grew: +32.0 KiB mm a.py:3")
    assert lines[7:9] == ["torch: 2.13.0+cu130 → 2.13.0+cpu", "cuda: 13.0 → 13.2"]
    assert not any("workspaces" in line for line in lines)
    code, lines = compared(*on_two_versions(tmp_path, named("product"), PLAIN))
    assert (code, lines[1]) == (0, "torch 2.13.0+cu130 → 2.15.0+cu132: the upgrade changed no test")


def test_a_comment_has_the_terms_and_lines_of_a_change(tmp_path, compared):
    scores = Held(KIB, (16, 16), "float32", "mm", "attn.py:7", "f", dims=("N", "N"))
    mask = replace(scores, op="masked_fill", where="attn.py:14")
    old = write(tmp_path / "old.json", replace(named("product"), held=(scores,)))
    new = write(tmp_path / "new.json", replace(named("product", 2), held=(scores, mask)))
    _, lines = compared(old, new, "--markdown")
    assert lines[-1] == (
        "| `a.py::product` | 1.0 | 2.0 | +1.0 KiB | +100.0 |"
        " **grew: `+4*N^2 masked_fill attn.py:14`** |"
    )
    _, lines = compared(new, old)
    assert lines[-1].endswith("  shrank: -4*N^2 masked_fill attn.py:14")


@pytest.mark.parametrize("form", [(), ("--markdown",), ("--json",)], ids=str)
def test_nothing_that_changed_is_exit_code_0(files, compared, form):
    code, lines = compared(files[0], files[0], *form)
    assert code == 0
    if form == ():
        assert lines == ["none of 7 tests failed the comparison: 7 unchanged."]


def test_the_unit_is_of_the_sizes_that_are_shown(tmp_path, compared):
    roomy = [named("roomy", kib, limit_bytes=1 << 40) for kib in (1, 2)]
    _, lines = compared(*(write(tmp_path / f"{row.peak_bytes}.json", row) for row in roomy))
    assert lines[2].split()[:5] == ["test", "old", "KiB", "new", "KiB"]


@pytest.mark.parametrize(
    ("old", "new", "percent"),
    [(1, 11, ">+999"), (0, 5, ""), (8, 7, "-12.5"), (1000, 10990, "+999.0")],
)
def test_a_change_far_over_is_not_spelled_out(tmp_path, compared, old, new, percent):
    files = [write(tmp_path / f"{peak}.json", replace(ROW, peak_bytes=peak)) for peak in (old, new)]
    _, lines = compared(*files, "--markdown")
    assert lines[4].split(" | ")[4] == percent


def test_a_comment_holds_no_more_than_github_takes(tmp_path, compared):
    old = write(tmp_path / "old.json", *(named(f"test_é[{i}]") for i in range(3000)))
    new = write(tmp_path / "new.json", *(named(f"test_é[{i}]", 2) for i in range(3000)))
    _, lines = compared(old, new, "--markdown")
    text = "\n".join(lines)
    assert LIMIT * 0.9 < len(text.encode()) <= LIMIT
    assert f"{3000 - text.count('+1.0 KiB')} more left out." in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.json", "b.json"], "cannot read none.json: No such file or directory"),
        (["a.json", "a.json", "--fail-on", "1MB"], "cannot read --fail-on '1MB'; write a fraction"),
        (["a.json", "b.json"], "nothing can be compared: no test was measured on the same device"),
    ],
    ids=["missing", "tolerance", "nothing in common"],
)
def test_what_cannot_be_compared_is_one_line(tmp_path, monkeypatch, refusal, arguments, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.json", ROW)
    write(tmp_path / "b.json", named("other"))
    assert refusal("compare", *arguments).startswith(message)
