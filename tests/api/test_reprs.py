"""What a user may print, and what a failing assert prints, is one short line."""

import re

import pytest
import torch

import pytest_attnmem
from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.kernels.standard import MODEL
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.record import Record


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


def test_formulas():
    derived = pytest_attnmem.derive(lambda x: x.softmax(-1), "N M")
    assert repr(derived) == "<Derived: 4*N*M>"
    assert repr(derived.polynomial) == "<Polynomial: 4*N*M>"
    assert repr(derived.terms) == "(Term(text='4*N*M'),)"
    assert repr(pytest_attnmem.parse_formula("4*B")) == "<Formula: 4*B>"
    assert repr(MODEL.forward) == "<MemoryModel: standard forward, 7 phases>"


@pytest.mark.parametrize("size", [4096, None])
def test_rows(size):
    row = Record("t.py::a", "mask", held=(Held(8, (), "", "", ""),) * 9, peak_bytes=size)
    assert repr(row) == "<Record: t.py::a [mask] measured" + ", peak 4.0 KiB>" * bool(size) + (
        "" if size else ">"
    )
