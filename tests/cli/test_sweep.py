"""``attnmem sweep``: its rows, its files, and what it refuses."""

import csv
import json
from contextlib import nullcontext

import pytest

from pytest_attnmem.cli import main, sweep
from pytest_attnmem.sweep.runner import SweepRunner

SMALL = ("--d", "16", "--n", "64,128", "--backward", "--simulate", "--device", "GTX 1080")


@pytest.fixture
def swept(printed_json):
    """Returns the JSON that ``attnmem sweep … --json -`` prints."""
    return lambda *arguments, code=0: printed_json("sweep", *arguments, "--json", "-", code=code)


def test_the_table_and_the_files(capsys, tmp_path):
    paths = {name: tmp_path / f"sweep.{name}" for name in ("json", "csv", "markdown")}
    files = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
    assert main(["sweep", "--kernel", "textbook,flash,ring:4", *SMALL, *files, "--decompose"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("forward and backward, B=8 H=1 float32, simulated:GTX 1080, 7.9 GiB\n")
    for header in ("before backward MiB", "peak MiB", "status"):
        assert header in out.splitlines()[2]
    assert "forward ms" not in out
    assert "\nflash, d=16 N=128: peak\n" in out
    assert len(list(csv.reader(paths["csv"].read_text().splitlines()))) == 7
    assert paths["markdown"].read_text("utf-8").startswith("# Attention benchmark: textbook, flash")
    data = json.loads(paths["json"].read_text())
    assert data["complete"] is True
    assert data["parameters"]["kernel"] == "textbook,flash,ring:4"
    assert [row["by"] for row in data["rows"]] == ["simulated"] * 4 + ["by the model"] * 2


def test_on_a_device_there_are_times(swept):
    here = ("--device", "cpu", "--passes", "2", "--warmup", "1", "--no-causal", "--dtype", "fp64")
    sizes = ("--d", "8", "--n", "32", "--batch", "2", "--heads", "2", "--backward")
    (row,) = swept(*sizes, *here)["rows"]
    told = (row["status"], row["by"], row["causal"], row["dtype"])
    assert told == ("ok", "measured", False, "float64")
    assert min(row["forward_ms"], row["backward_ms"]) > 0
    rows, tensor, scale = 2 * 2 * 32, 2 * 2 * 32 * 8 * 8, 8
    assert row["before_bytes"] == 14 * tensor + rows * (2 * 32 * 8 + 8 + 8) + scale


def test_what_will_take_long_is_told_before_it_begins(capsys, monkeypatch):
    monkeypatch.setattr("pytest_attnmem.cli.sweep._run", lambda *_, **__: ((), True, ()))
    assert main(["sweep", "--device", "cpu"]) == 1
    assert capsys.readouterr().err == (
        "attnmem sweep: times 20 cases on the CPU, 105 runs of each; --simulate gives the"
        " memory alone, in seconds\n"
    )
    for short in (["--device", "cpu", "--n", "256", "--d", "16"], ["--simulate"]):
        assert main(["sweep", *short]) == 1
        assert capsys.readouterr().err == ""


LITTLE = ("--d", "16", "--simulate", "--memory", "64 MiB", "--n")


def test_the_longest_that_fits(swept):
    (found,) = swept(*LITTLE, "64", "--longest")["longest"]
    N = found["N"]
    rows = [swept(*LITTLE, str(at))["rows"][0] for at in (N, N + 1)]
    assert [row["status"] for row in rows] == ["ok", "OOM"]
    assert (found["kernel"], found["d"], found["reason"]) == ("textbook", 16, "")
    assert found["peak_bytes"] == rows[0]["peak_bytes"] <= found["reserved_bytes"] <= 64 << 20


def test_the_longest_of_a_ring_is_shared_evenly(swept, monkeypatch):
    ring = (*LITTLE, "64", "--longest", "--kernel", "ring:4")
    assert swept(*ring)["longest"][0]["N"] % 4 == 0
    monkeypatch.setattr(SweepRunner, "fits", lambda bench, case: False)
    (nothing,) = swept(*ring)["longest"]
    assert (nothing["N"], nothing["reason"]) == (None, "not even N=1 fits")


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C at the second row; and what was run until then, and after."""
    run, asked = SweepRunner.row, []

    def row(bench, case):
        asked.append(case.N)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return run(bench, case)

    monkeypatch.setattr(SweepRunner, "row", row)
    return asked


def test_an_interrupt_keeps_the_rows_that_are_done_and_resume_goes_on(
    interrupted, capsys, swept, tmp_path
):
    path = str(tmp_path / "sweep.json")
    assert main(["sweep", *SMALL, "--json", path]) == 130
    out, _ = capsys.readouterr()
    assert out.splitlines()[-1] == "interrupted: 1 row done; --resume continues"
    data = json.loads((tmp_path / "sweep.json").read_text())
    assert (data["complete"], len(data["rows"])) == (False, 1)
    found = swept(*SMALL, "--resume", path)
    assert interrupted == [64, 128, 128]
    assert (found["complete"], [row["N"] for row in found["rows"]]) == (True, [64, 128])
    assert found["rows"][0] == data["rows"][0]


def test_what_went_wrong_is_tried_again_and_another_sweep_is_not_resumed(
    capsys, swept, refusal, tmp_path
):
    path = tmp_path / "sweep.json"
    assert main(["sweep", *SMALL, "--json", str(path)]) == 0
    capsys.readouterr()
    other = refusal("sweep", *SMALL, "--batch", "4", "--resume", str(path))
    assert other == f"--resume {path}: its batch was '8', and now is '4'"
    data = json.loads(path.read_text())
    data["rows"][0] |= {"status": "error", "reason": "a tensor fell off"}
    data["rows"][1] |= {"reason": "as it was"}
    path.write_text(json.dumps(data))
    first, second = swept(*SMALL, "--resume", str(path))["rows"]
    assert (first["status"], first["reason"]) == ("ok", "")
    assert second["reason"] == "as it was"


def test_it_is_shown_how_far_it_is(monkeypatch):
    said = []
    monkeypatch.setattr(sweep, "progress", lambda text: nullcontext(said.append))
    assert main(["sweep", *SMALL]) == 0
    assert said == [
        "[....................] 0/2 textbook causal N=64 d=16",
        "[##########..........] 1/2 textbook causal N=128 d=16",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--d", "16,x"], "--d: expected a whole number >= 1 and < 2**63, got 'x'"),
        (["--n", "0"], "--n: expected a whole number >= 1 and < 2**63, got '0'"),
        (["--n", "64,,128"], "--n: expected names or sizes with commas, got '64,,128'"),
        (["--batch", "-1"], "--batch: expected a whole number >= 1 and < 2**63, got '-1'"),
        (["--passes", "0"], "--passes: expected a whole number >= 1 and < 10**6, got '0'"),
        (["--warmup", "x"], "--warmup: expected a whole number >= 0 and < 10**6, got 'x'"),
        (["--passes", "9" * 5000], "--passes: expected a whole number >= 1 and < 10**6, got"
         f" '{'9' * 61}...'"),
        (["--dtype", "int8"], "--dtype needs a floating dtype, such as torch.float16 or 'float16',"
         " got 'int8'"),
        (["--kernel", "linear", "--causal"], "linear is not causal: leave out --causal"),
        (["--memory", "1 GiB"], "--memory is for a simulated device: add --simulate"),
        (["--longest"], "--longest is for a simulated device: add --simulate"),
        (["--device", "GTX 1080"], "GTX 1080 is a profile to simulate: add --simulate"),
        (["--simulate", "--memory", "0"], "--memory: expected a size above 0, got 0"),
        (["--simulate", "--memory", "98 GB"], "cannot parse size '98 GB': write '98 GiB' (1 GiB ="
         " 1024**3 bytes); GB is used for both 10**9 and 2**30"),
    ],
)  # fmt: skip
def test_what_cannot_be_swept_is_told_in_one_line(refusal, arguments, message):
    assert refusal("sweep", *arguments) == message


@pytest.mark.parametrize("option", ["--json", "--csv", "--markdown"])
def test_where_nothing_can_be_written_nothing_is_swept(refusal, tmp_path, option):
    none = tmp_path / "none"
    wrong = [
        (none / "sweep", f"there is no directory {none}; create it first"),
        (tmp_path, f"{tmp_path} is a directory; name a file in it"),
        ("n" * 300, f"File name too long: '{'n' * 61}...'; name another file"),
    ]
    if option != "--json":
        wrong.append(("-", "only --json is printed; name a file"))
    for path, why in wrong:
        assert refusal("sweep", *SMALL, option, str(path)) == f"{option}: {why}"


def test_without_a_row_that_says_anything_it_fails(swept):
    found = swept("--kernel", "ring:3", "--d", "16", "--n", "256", "--simulate", code=1)
    (row,) = found["rows"]
    assert (row["status"], row["reason"]) == ("error", "3 ranks cannot share N=256 evenly")
