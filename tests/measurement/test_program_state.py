"""The state of a program is put back, and what a run drops meanwhile is freed."""

import gc
import itertools
import logging
import os
import random
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from functools import lru_cache

import pytest
import torch

from pytest_attnmem.errors import ProgramRefused
from pytest_attnmem.measurement.program_state import ProgramState
from pytest_attnmem.measurement.random_states import Generators

NAME = "program_of_state"
SOURCE = """
import array, contextvars, io, itertools, logging, queue, random, threading, weakref
from collections import ChainMap, defaultdict, deque, OrderedDict
from functools import lru_cache, partial
from unittest.mock import Mock
import numpy
import torch

CALLS = 0
CACHE = {}
STATES = []
SEEN = set()
RECENT = deque(maxlen=2)
GROUPS = defaultdict(list)
ORDER = OrderedDict(a=1)
IDS = itertools.count()

OF_THREAD = threading.local()
VARIABLE = contextvars.ContextVar("variable", default=0)
DRAWN = random.Random(0), torch.Generator()
DRAWN += numpy.random.default_rng(0), numpy.random.RandomState(0)
ARRAY, BYTES, NUMBERS = numpy.zeros(2), bytearray(2), array.array("i", [0])
QUEUE, CHAIN, BY_MODEL = queue.Queue(), ChainMap({}), weakref.WeakKeyDictionary()
MOCK, HANDLER = Mock(), logging.StreamHandler(io.StringIO())

@lru_cache(maxsize=1)
def mask(n): return torch.ones(n, n)

class Job:
    made = 0
    @staticmethod
    @lru_cache(maxsize=1)
    def table(n): return torch.ones(n)
    def __init__(self): self.last, self.pair = None, (torch.zeros(2), [torch.zeros(3)])

class Slotted:
    __slots__ = ("kept", "__weakref__")
    def __init__(self): self.kept = torch.zeros(2)

def noted(x, seen=[]): seen.append(x)

def bare(): pass

def counter():
    number = 0
    def count():
        nonlocal number
        number += 1
        return number
    return count

count = counter()
job, slotted = Job(), Slotted()
model = torch.nn.Linear(4, 4)
model.register_buffer("cache", None)
optimizer = torch.optim.Adam(model.parameters())
add = partial(STATES.append)

def body(n):
    global CALLS
    CALLS += 1
    CACHE[n] = torch.zeros(n)
    add(torch.zeros(n))
    SEEN.add(n)
    RECENT.append(n)
    GROUPS[n].append(n)
    ORDER.move_to_end("a"); ORDER[n] = n
    next(IDS)
    mask(n)
    noted(n)
    count()
    noted.last = body.calls = n
    if n > 3: bare.calls = n
    OF_THREAD.runs = getattr(OF_THREAD, "runs", 0) + 1
    VARIABLE.set(VARIABLE.get() + 1)
    DRAWN[0].random(), torch.rand(1, generator=DRAWN[1]), DRAWN[2].random(), DRAWN[3].rand()
    ARRAY[0] += n; BYTES[0] += n; NUMBERS[0] += n
    QUEUE.put(n); CHAIN[n] = n; BY_MODEL[model] = torch.zeros(n)
    MOCK(n); HANDLER.stream.write("a")
    model.weight.register_hook(lambda grad: None)
    job.table(n)
    Job.made += 1
    job.last, job.pair = torch.zeros(n), (torch.full((2,), float(n)), [torch.ones(3)])
    job.extra = n
    slotted.kept = torch.full((2,), float(n))
    model.cache = torch.zeros(n)
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()

def facts():
    return {
        "global": CALLS, "dict": sorted(CACHE), "list": len(STATES), "set": sorted(SEEN),
        "deque": list(RECENT), "defaultdict": dict(GROUPS), "ordered": list(ORDER),
        "count": repr(IDS), "lru_cache": mask.cache_info(),
        "default": noted.__defaults__[0][:], "closure": count.__closure__[0].cell_contents,
        "functions": [{**vars(function)} for function in (noted, body, bare)],
        "thread": OF_THREAD.runs, "variable": VARIABLE.get(), "chain": dict(CHAIN),
        "python's": DRAWN[0].getstate(), "numpy's": str(DRAWN[2].bit_generator.state),
        "older": DRAWN[3].get_state()[2], "torch's": DRAWN[1].get_state().tolist(),
        "arrays": (ARRAY.tolist(), bytes(BYTES), NUMBERS.tolist()), "queue": QUEUE.qsize(),
        "weak": BY_MODEL[model].tolist(), "mock": MOCK.call_count,
        "stream": HANDLER.stream.getvalue(), "hooks": len(model.weight._backward_hooks),
        "static": job.table.cache_info(), "class": Job.made,
        "attribute": job.last.tolist(), "new attribute": job.extra,
        "tuple": job.pair[0].tolist(), "nested list": job.pair[1][0].tolist(),
        "slot": slotted.kept.tolist(), "buffer": model.cache.tolist(),
        "weight": model.weight.detach().tolist(), "grad": model.weight.grad.tolist(),
        "optimizer": [float(one["step"]) for one in optimizer.state.values()],
        "moments": [one["exp_avg"].tolist() for one in optimizer.state.values()],
    }
"""


@pytest.fixture
def program(tmp_path):
    """A module of a program whose body changes each kind of state."""
    path = tmp_path / "program_of_state.py"
    path.write_text(SOURCE, "utf-8")
    module = types.ModuleType(NAME)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(SOURCE, str(path), "exec"), vars(module))
    yield module
    del sys.modules[module.__name__]


def test_each_kind_of_state_is_put_back(program):
    program.body(3)
    before, weight = program.facts(), program.model.weight
    state = ProgramState({}, [NAME])
    for _ in range(2):
        with state.for_a_run():
            program.body(4)
            program.body(5)
            assert program.facts()["global"] == 3
        assert program.facts() == before
    assert program.model.weight is weight  # it is the same parameter, which the optimizer has
    assert state.lost == ""


def test_a_run_finds_caches_empty_or_as_they_are(program):
    program.mask(3)
    state = ProgramState({}, [NAME])
    with state.for_a_run():
        assert program.mask.cache_info().currsize == 0
    with state.for_a_run(empty_caches=False):
        program.mask(3)
    assert program.mask.cache_info()[:2] == (1, 1)


def test_a_kept_state_keeps_no_tensor_alive(program):
    program.body(3)
    state = ProgramState({}, [NAME])
    kept = [program.job.last, program.job.pair[0], program.job.pair[1][0], program.slotted.kept]
    freed = [weakref.ref(tensor) for tensor in kept]
    kept.clear()
    with state.for_a_run():
        program.body(4)
        gc.collect()
        assert [ref() for ref in freed] == [None] * 4
    assert program.job.last.tolist() == [0.0, 0.0, 0.0]


def test_values_are_put_back_too_alone_if_asked(program):
    values, made = {"runs": []}, [1]
    state = ProgramState({"values": values, "made": made}, [NAME])
    values["runs"].append(1)
    made.append(2)
    program.STATES.append(1)
    state.put_values_back({"values"})
    assert (values, made, program.STATES) == ({"runs": []}, [1, 2], [1])
    state.put_back()
    assert (values, made, program.STATES) == ({"runs": []}, [1], [])


def test_a_tensor_that_is_too_large_to_copy_is_named_if_a_run_writes_to_it(program, monkeypatch):
    monkeypatch.setattr("pytest_attnmem.measurement.program_state._MOST_BYTES", 8)
    program.CACHE["table"] = torch.zeros(64)
    state = ProgramState({}, [NAME])
    with state.for_a_run():
        pass
    assert state.lost == ""
    with state.for_a_run():
        program.CACHE["table"].add_(1)
    assert state.lost == "program_of_state.CACHE['table']"


def test_what_a_run_imports_stays(program):
    state = ProgramState({}, [NAME])
    with state.for_a_run():
        program.json = __import__("json")
        program.text = "new"
    assert program.json is sys.modules["json"]
    assert not hasattr(program, "text")


def test_the_process_is_put_back(monkeypatch):
    monkeypatch.setenv("ATTNMEM_STATE", "before")
    path, logger = [*sys.path], logging.getLogger("attnmem.state")
    state = ProgramState({}, [NAME])
    with state.for_a_run():
        os.environ["ATTNMEM_STATE"] = "after"
        sys.path.append("after")
        logger.addHandler(logging.NullHandler())
    assert os.environ["ATTNMEM_STATE"] == "before"
    assert (sys.path, logger.handlers) == (path, [])


def test_generators_are_put_back():
    numpy = pytest.importorskip("numpy")

    def drawn():
        return random.random(), numpy.random.rand(), torch.rand(1).item()

    kept = Generators()
    assert not kept.have_moved
    first = drawn()
    assert kept.have_moved
    kept.put_back()
    assert not kept.have_moved
    assert drawn() == first
    kept.seed(1)
    seeded = drawn()
    kept.seed(1)
    assert drawn() == seeded != first


def test_containers_of_c_are_made_anew_with_what_they_need():
    held = {"groups": defaultdict(list, a=[torch.zeros(2)]), "order": OrderedDict(a=torch.ones(1))}
    state = ProgramState({"held": held})
    with state.for_a_run():
        held["groups"], held["order"] = None, deque()
    held["groups"]["b"].append(1)
    assert {key: len(value) for key, value in held["groups"].items()} == {"a": 1, "b": 1}
    assert held["order"]["a"].tolist() == [1.0]


def test_an_iterator_goes_on_where_it_was():
    held = {"ids": itertools.count(5), "cached": lru_cache(lambda n: n)}
    state = ProgramState({"held": held})
    with state.for_a_run():
        assert next(held["ids"]) == 5
        held["cached"](1)
    assert next(held["ids"]) == 5
    assert held["cached"].cache_info().misses == 0


def test_a_value_that_is_an_iterator_has_a_stand_in():
    values = {"ids": itertools.count(5, 2)}
    state = ProgramState(values)
    with state.for_a_run() as others:
        assert next(others["ids"]) == 5
    with state.for_a_run() as others:
        assert [next(others["ids"]), next(others["ids"])] == [5, 7]
    assert next(values["ids"]) == 5


@pytest.mark.parametrize(
    "shared", [(n for n in range(3)), map(abs, range(3)), itertools.cycle(range(3))]
)
def test_an_iterator_that_cannot_be_copied_refuses_to_go_on(shared):
    held = {"batches": shared}
    refused = pytest.raises(ProgramRefused, match=r"advances held\['batches'\], a \w+, which")
    with ProgramState({"held": held}).for_a_run(), refused:
        next(held["batches"])
    assert next(held["batches"]) == 0
