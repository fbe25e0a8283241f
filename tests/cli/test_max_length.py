"""``attnmem max-length``: the length that it finds fits, and the next does not."""

from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.cli import main, max_length
from pytest_attnmem.kernels.registry import kernel_named
from pytest_attnmem.models.search import LIMIT, longest
from pytest_attnmem.profiles import PROFILES
from pytest_attnmem.symbols.attention_shape import Source, gather

from .conftest import on_simulated


@pytest.fixture
def ask(printed_json):
    """Returns the JSON that ``attnmem max-length … --json`` prints."""
    return lambda *arguments: printed_json("max-length", *arguments, "--json")


def searched(edge, *arguments):
    """The length that is found, and those that were tried."""
    tried = []

    def fits(N):
        tried.append(N)
        return edge >= N

    return longest(fits, *arguments), tried


@given(st.integers(0, 3000), st.integers(-5, 4000), st.integers(1, 3500))
def test_the_edge_is_found_wherever_the_search_begins(edge, about, limit):
    found, tried = searched(edge, about, limit)
    assert found == min(edge, limit)
    assert all(1 <= N <= limit for N in tried)


@given(st.integers(0, LIMIT + 10), st.integers(-(LIMIT >> 14), LIMIT >> 14))
def test_few_lengths_are_tried_where_the_guess_is_good(edge, off):
    found, tried = searched(edge, edge + off)
    assert found == min(edge, LIMIT)
    assert len(tried) <= (45 if off else 25)


def run(name, sizes, N, M, backward=False, dtype=torch.float32):
    """A kernel on a simulated T4, on its own."""
    B, H, d = sizes
    shapes = [(B, H, length, d) for length in (N, M, M)]
    return on_simulated("T4", name, shapes, dtype, backward)[0]


@pytest.mark.parametrize(
    ("name", "backward", "M"),
    [
        ("standard", False, None),
        ("standard", True, None),
        ("sdpa-math", True, None),
        ("standard", False, 4096),
    ],
)
def test_one_more_token_is_out_of_memory(ask, name, backward, M):
    options = [*["--backward"] * backward, *(["--M", str(M)] if M else [])]
    found = ask(
        *(name, "--B", "4", "--H", "8", "--d", "64", "--dtype", "half", "--device", "T4", *options)
    )
    N = found["longest"]
    assert (found["by"], found["at"]["N"], found["next"]["N"]) == ("simulation", N, N + 1)
    assert found["shape"]["M"] == (M or N)
    seen, over = (run(name, (4, 8, 64), n, M or n, backward, torch.float16) for n in (N, N + 1))
    assert seen.out_of_memory is None
    assert over.out_of_memory is not None
    assert (found["at"]["fits"], found["next"]["fits"]) == (True, False)
    if name == "standard" and not backward:  # at the peak there is nothing but its tensors
        for length in (found["at"], found["next"]):
            known = {"B": 4, "H": 8, "N": length["N"], "d": 64, "dtype": "half"}
            shape = gather([Source("test", known | ({"M": M} if M else {}))])
            assert length["peak_bytes"] == kernel_named(name).model.forward.peak(shape)


def test_what_is_printed(capsys):
    assert main(["max-length", "standard", "--B", "4", "--H", "8", "--d", "64"]) == 0
    first, second, third, fourth = capsys.readouterr().out.splitlines()
    N = 18158
    assert first == f"N={N:,} is the longest that fits A100-80GB (simulated)"
    assert second == f"  standard forward, B=4 H=8 Hkv=8 N={N} M={N} d=64 dv=64 float32"
    peak, over = (4 * 8 * n * (2 * n + 64) * 4 for n in (N, N + 1))
    assert third == f"  N={N:,}: peak 78.7 GiB ({peak:,} B), with 425.6 MiB of inputs"
    assert fourth == f"  N={N + 1:,}: peak 78.8 GiB ({over:,} B), needs 141.9 MiB more"


def test_loops_over_many_blocks_are_judged_by_the_model(ask, capsys):
    sizes = ("flash", "--B", "1", "--H", "8", "--d", "64", "--backward", "--device", "T4")
    found = ask(*sizes)
    N = found["longest"]
    peaks = [
        kernel_named("flash").model.training.peak(
            gather([Source("test", {"B": 1, "H": 8, "N": n, "d": 64, "dtype": "float32"})]),
            ("sm75", "cuda"),
        )
        for n in (N, N + 1)
    ]
    assert found["by"] == "model"
    assert [found["at"]["peak_bytes"], found["next"]["peak_bytes"]] == peaks
    workspaces = 2 * 8_519_680
    at, over = (
        peak + 3 * 8 * n * 64 * 4 + workspaces - PROFILES["T4"].memory_bytes
        for peak, n in zip(peaks, (N, N + 1), strict=True)
    )
    assert at <= 0 < over
    assert main(["max-length", *sizes]) == 0
    assert "(by the model)" in capsys.readouterr().out.splitlines()[0]


def test_blocks_that_are_few_are_simulated(ask):
    found = ask("sliding-window", "--B", "64", "--H", "64", "--d", "128", "--device", "T4")
    assert found["by"] == "simulation"
    seen = run("sliding-window", (64, 64, 128), found["longest"], found["longest"])
    assert (seen.out_of_memory, seen.peak_bytes) == (None, found["at"]["peak_bytes"])


def test_not_even_one_token_may_fit(ask, capsys):
    much = ("linear", "--B", "1048576", "--H", "1000", "--d", "64")
    found = ask(*much)
    assert (found["longest"], found["at"]) == (None, None)
    assert found["next"]["N"] == 1
    assert main(["max-length", *much]) == 0
    assert capsys.readouterr().out == (
        "not even N=1 fits A100-80GB: linear forward, B=1048576 H=1000 Hkv=1000 N=1 M=1 d=64 dv=64"
        " float32, it does not fit (simulated)\n"
    )


def test_there_is_an_end_to_what_is_tried(ask, capsys):
    little = ("linear", "--B", "1", "--H", "1", "--d", "1")
    found = ask(*little)
    assert (found["longest"], found["limit"], found["next"]) == (2**27, 2**27, None)
    assert main(["max-length", *little]) == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        "N=134,217,728 fits A100-80GB (simulated); no longer length was tried"
    )


def test_what_is_tried_is_shown(monkeypatch):
    said = []
    monkeypatch.setattr(max_length, "progress", lambda text: nullcontext(said.append))
    monkeypatch.setattr(max_length, "LIMIT", 4)
    assert main(["max-length", "linear", "--B", "1", "--H", "1", "--d", "1"]) == 0
    assert said[0] == "about N=134,217,728 by the model; simulating"
    assert said[1:]
    assert all(text.startswith("trying N=") for text in said[1:])


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        ("linear", ["--M", "x"], "--M: expected a whole number >= 1 and < 2**63, got 'x'"),
        ("linear", ["--device", "H10"], "unknown device 'H10'; did you mean H100? expected one of"),
        ("lineal", [], "unknown kernel 'lineal'; did you mean 'linear'? expected one of"),
    ],
)
def test_what_cannot_be_looked_for_is_told_in_one_line(refusal, kernel, options, message):
    """``test_predict.py`` has the others of a workload."""
    given = ("--B", "1", "--H", "2", "--d", "8", *options)
    assert refusal("max-length", kernel, *given).startswith(message)
