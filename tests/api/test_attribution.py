import asyncio
import re
from dataclasses import replace

import pytest
import torch

import pytest_attnmem
from pytest_attnmem.api.attribution import attributed, of_second_run, wanted, with_held
from pytest_attnmem.backends.compile_watch import EAGER
from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.budgets.budget import Budget, Obstacle
from pytest_attnmem.budgets.failure_text import explain
from pytest_attnmem.budgets.verdict import judge, not_enforced
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.kernels.standard import MODEL
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.timeline import Allocation, Timeline
from pytest_attnmem.report.record import Record

PEAK, LEFT = (
    Held(1024, (256,), "float32", "empty", "a.py:1"),
    Held(256, (64,), "float32", "ones", "a.py:2"),
)


@pytest.mark.parametrize(
    ("metric", "held", "title"), [("peak", PEAK, "at the peak"), ("retained", LEFT, "at the end")]
)
def test_what_is_named_is_what_the_metric_counts(seen, metric, held, title):
    verdict = judge(seen, Budget(1, metric=metric))
    verdict = attributed(verdict, lambda: replace(seen, held=(PEAK,), left=(LEFT,)))
    assert verdict.measurement.held == (held,)
    assert f"  held {title} (1 tensor):" in explain(verdict, {}).splitlines()
    assert verdict.measurement.held_note == ""


UNSEEN = "that the second run did not account for (scratch inside kernels, most likely)"
SURPLUS = "the second run, eager, without scratch or frees of older tensors, held 2.0 KiB"


@pytest.mark.parametrize(
    ("second", "note"),
    [
        (1000, f"and 24 B {UNSEEN}"),
        (2048, SURPLUS),
    ],
)
def test_a_second_run_that_differs_is_told(seen, second, note):
    verdict = attributed(judge(seen, Budget(1)), lambda: replace(seen, peak_bytes=second))
    assert verdict.measurement.held_note == note


def fail(error):
    raise error


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("stop", [KeyboardInterrupt(), pytest.exit.Exception("enough")])
def test_a_stop_is_raised(seen, known, stop):
    measured = replace(seen, held=(PEAK,)) if known else seen
    with pytest.raises(type(stop)):
        attributed(judge(measured, Budget(1)), lambda: fail(stop))


def refused(error):
    return lambda seen: lambda: fail(error)


@pytest.mark.parametrize(
    ("again", "why"),
    [
        (refused(ValueError("no\nmore")), "the second run raised ValueError: no more"),
        (refused(AttnMemError("it cannot run twice")), "it cannot run twice"),
        (refused(SystemExit(3)), "the second run raised SystemExit: 3"),
        (refused(asyncio.CancelledError()), "the second run raised CancelledError"),
        (refused(pytest.skip.Exception("no more")), "the second run raised Skipped: no more"),
        (refused(pytest.fail.Exception("no more")), "the second run raised Failed: no more"),
        (lambda seen: None, "a region runs again only with its test"),
        # The tensors of eager code are not those of compiled code.
        (
            lambda seen: lambda: replace(seen, held=(PEAK,), unmeasured=EAGER),
            "compiled code runs eagerly under a tracker",
        ),
    ],
)
def test_a_second_run_that_fails_leaves_the_verdict_and_says_why(seen, again, why):
    verdict = judge(seen, Budget(1))
    told = attributed(verdict, again(seen))
    assert (told.outcome, told.reason) == (verdict.outcome, verdict.reason)
    assert told.measurement.held == ()
    assert told.measurement.held_note == f"held tensors are unknown: {why}"


def test_what_ran_out_of_memory_is_not_run_again(seen):
    verdict = judge(replace(seen, out_of_memory="tried to allocate 1 GiB"), Budget(1))
    assert attributed(verdict, lambda: fail(AssertionError)) == verdict


LIVES = Timeline(1, (Allocation(PEAK, 0, None),))


@pytest.mark.parametrize(
    ("peak", "left_out", "note"),
    [
        (1024, (), "the second run"),
        (1000, (), f"the second run, and 24 B {UNSEEN.replace('the second run', 'it')}"),
        (2048, (), SURPLUS),
        (1024, ("3 are left out",), "the second run; 3 are left out"),
    ],
)
def test_the_note_of_a_timeline_names_the_second_run_and_what_it_missed(seen, peak, left_out, note):
    lives = replace(LIVES, left_out=left_out).seen_in("the run itself")
    again = replace(seen, peak_bytes=peak, timeline=lives, snapshots=({},))
    measured = attributed(judge(seen, Budget(1)), lambda: again).measurement
    assert measured.timeline == replace(LIVES, note=note)
    assert measured.snapshots == ({},)
    assert measured.peak_bytes == 1024


def test_the_timeline_is_that_of_the_run_that_knows_one(seen):
    known = replace(seen, held=(PEAK,), left=(LEFT,), timeline=LIVES)
    assert attributed(judge(known, Budget(1)), None).measurement.timeline == LIVES
    assert of_second_run(seen).timeline is None


@pytest.mark.parametrize(
    ("limit", "unmeasured", "settings"),
    [(1, None, {"auto", "all"}), (4096, None, {"all"}), (4096, "a thread was started", set())],
)
def test_who_held_memory_is_asked_of_what_is_over_or_of_all(seen, limit, unmeasured, settings):
    verdict = judge(replace(seen, unmeasured=unmeasured), Budget(limit))
    assert {name for name in ("auto", "all", "off") if wanted(name, verdict)} == settings


def test_what_was_held_becomes_known_later(seen):
    verdict = with_held(judge(seen, Budget(1)), replace(seen, held=(PEAK,), held_note="note"))
    assert verdict.measurement == replace(seen, held=(PEAK,), held_note="note")
    assert verdict.reason == judge(seen, Budget(1)).reason
    skipped = not_enforced("skipped", Obstacle.NOT_FINISHED)
    assert with_held(skipped, seen) == skipped  # a verdict on nothing holds nothing


def many(N=200):
    return [torch.zeros(number, device="cuda") for number in range(1, N + 1)]


def test_a_measurement_and_what_comes_of_it():
    found, _ = open_primed("simulated:T4", evidence=True).run(many)
    assert len(found.held) > 100
    assert repr(found) == (
        "<Measurement: peak 78.5 KiB, allocated 136.0 KiB, reserved 2.0 MiB, retained 78.5 KiB on"
        " simulated:T4>"
    )
    assert re.fullmatch(r"<Timeline: \d+ events, \d+ allocations>", repr(found.timeline))
    verdict = pytest_attnmem.check(found, "1 MiB")
    assert repr(verdict) == "<Verdict: within>"
    growth = pytest_attnmem.growth(many, N=[10, 20, 30, 40, 50], backend="simulated")
    assert repr(growth) == "<Growth: 2*N^2 + 2*N, of N=10,20,30,40,50>"


def test_formulas_and_rows():
    derived = pytest_attnmem.derive(lambda x: x.softmax(-1), "N M")
    assert repr(derived) == "<Derived: 4*N*M>"
    assert repr(derived.polynomial) == "<Polynomial: 4*N*M>"
    assert repr(derived.terms) == "(Term(text='4*N*M'),)"
    assert repr(pytest_attnmem.parse_formula("4*B")) == "<Formula: 4*B>"
    assert repr(MODEL.forward) == "<MemoryModel: standard forward, 7 phases>"
    row = Record("t.py::a", "mask", held=(Held(8, (), "", "", ""),) * 9)
    assert repr(row) == "<Record: t.py::a [mask] measured>"
    row = replace(row, peak_bytes=4096)
    assert repr(row) == "<Record: t.py::a [mask] measured, peak 4.0 KiB>"
