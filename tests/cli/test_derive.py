"""``attnmem derive``."""

import sys

import pytest

from pytest_attnmem.cli import main
from pytest_attnmem.cli.derive import render, to_dict
from pytest_attnmem.closed_forms.derived import CandidatePeak, Derived, Holder, Term
from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.formulas.polynomial import Polynomial

STANDARD = "pytest_attnmem.kernels.standard:attention"
QKV = ("B H N d",) * 3


def test_the_formula_is_printed_with_who_holds_it(capsys):
    assert main(["derive", STANDARD, *QKV]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["8*B*H*N^2 + 4*B*H*N*d", "  derived", "    8*B*H*N^2"]
    assert lines[3].split()[-2] == "bmm"


def test_several_live_sets_are_told_apart(capsys):
    assert main(["derive", STANDARD, *QKV, "--backward", "--dtype", "float16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("max(6*B*H*N^2 + ")
    assert any(line.endswith("   for N >= d") for line in lines)
    assert lines[-1] == "  holds for N >= 2"


def test_tensors_of_the_program_of_backward_and_scratch_stand_in_columns():
    held = (
        Holder("4*B*N", "[B, N]", "float32", "mul", "attn.py:5"),
        Holder("4", "", "float32", "sum", ""),
        Holder("8*N", "", "", "bmm (scratch)", "", scratch=True),
    )
    candidate = CandidatePeak(Polynomial({}), (Term("4*B*N + 4", held),), "")
    found = Derived("0", parse_formula("0").tree, (candidate,))
    assert render(found)[3:] == [
        "      [B, N] float32  mul            attn.py:5",
        "      [] float32      sum",
        "                      bmm (scratch)",
    ]
    held = to_dict(found)["candidates"][0]["terms"][0]["held"]
    assert [holder["where"] for holder in held] == ["attn.py:5", "", ""]


def test_json(printed_json):
    data = printed_json("derive", STANDARD, *QKV, "--json", "--device", "H100")
    assert (data["formula"], data["how"]) == ("8*B*H*N^2 + 4*B*H*N*d", "derived")
    assert data["candidates"][0]["terms"][0]["text"] == "8*B*H*N^2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["standard"], "cannot find 'standard'; write the module, a colon and the name"),
        (["no.such:fn", "N"], "cannot find 'no.such:fn': No module named 'no'"),
        (["no.py:fn", "N"], "cannot find 'no.py:fn': No module named 'no'; write no:fn"),
        (
            ["pytest_attnmem.units:nothing", "N"],
            "cannot find 'pytest_attnmem.units:nothing': module 'pytest_attnmem.units' has no"
            " attribute 'nothing'",
        ),
        ([STANDARD], "each tensor argument needs a shape, such as 'B H N d' 'B H M d'"),
        (
            [STANDARD, *QKV, "--dtype", "int7"],
            "--dtype needs a floating dtype, such as torch.float16 or 'float16', got 'int7'",
        ),
        (
            ["pytest_attnmem.units:_MAX_LENGTH", "N"],
            "expected a function and the shapes of its arguments, got 64",
        ),
        (
            [STANDARD, *QKV, "--sizes", "N"],
            "cannot read --sizes 'N'; write --sizes N=512,1024,1536,2048",
        ),
        (
            [STANDARD, *QKV, "--sizes", "N=1,x,3"],
            "--sizes: expected a whole number >= 1 and < 2**63, got 'x'",
        ),
        (
            [STANDARD, *QKV, "--sizes", "Q=16,32,48,64"],
            "sizes are given for Q, and no shape has that symbol; the shapes have B, H, N, d",
        ),
        (
            [STANDARD, *QKV[:2]],
            "the function raised TypeError: attention() missing 1 required positional argument: 'v'"
            " with B=4 H=8 N=512 d=48; give the shape of each argument, and sizes that it takes:"
            " --sizes N=512,1024,1536,2048",
        ),
    ],
)
def test_slips_are_told_in_one_line(refusal, arguments, message):
    assert refusal("derive", *arguments) == message


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        ("import sys; sys.exit(3)", "cannot import '{module}:f': SystemExit: 3", 1),
        ("raise ValueError('a\\nb')", "cannot import '{module}:f': ValueError: a\\nb", 1),
        (
            "def f(:",
            "cannot import '{module}:f': SyntaxError: invalid syntax ({module}.py, line 1)",
            None,
        ),
        ("def f(x):\n  raise SystemExit(1)", "the program raised SystemExit: 1", 2),
    ],
    ids=["exit", "error", "syntax", "exit in the function"],
)
def test_errors_of_the_users_code_are_told_in_one_line(
    capsys, tmp_path, monkeypatch, request, source, message, line
):
    module = f"derived_{abs(hash(request.node.name))}"
    (tmp_path / f"{module}.py").write_text(source, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["derive", f"{module}:f", "B N"]) == 2
    told, *lines = capsys.readouterr().err.splitlines()
    assert told == f"attnmem derive: {message.format(module=module)}"
    assert [f'{module}.py", line {line},' in place for place in lines[::2]] == [True] * bool(line)
