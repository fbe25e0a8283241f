"""The name of who holds a tensor that is left, for each kind of holder."""

import contextvars
import functools
import threading
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.backends.tracing.holders import UNSEEN
from pytest_attnmem.measurement.protocol import SearchTime

HERE = "test_holders.py"
MODULE = __name__

#: A step of each kind leaves one tensor; the sizes of the tensors tell them apart.
STEPS = []
#: What the steps return stays alive here until the names are found.
Kept = namedtuple("Kept", "first second")

TABLE = {}
KEPT = []
SEEN = set()
LATEST = None
ERRORS = []


def holder(expected):
    """Adds a step whose tensor is held by ``expected``."""

    def add(step):
        STEPS.append((expected, step))
        return step

    return add


def line(text):
    """Returns the number of the line of this file that ends in the comment ``# text``."""
    with open(__file__) as source:
        return next(n for n, one in enumerate(source, 1) if one.rstrip().endswith(f"# {text}"))


class Loop:
    last = None

    def __init__(self):
        self.outputs = []
        self.history = []


@dataclass(slots=True)
class Answer:
    text: str
    scores: object


class Session:
    def __init__(self):
        self.history = []
        self.answers = {}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(1, 1)


LOOP, SESSION, NET = Loop(), Session(), Net()


@holder(f"{MODULE}.LATEST")
def global_variable(x):
    global LATEST
    LATEST = x


@holder(f"{MODULE}.TABLE[(128, 64)]")
def global_dict_by_a_tuple(x):
    TABLE[128, 64] = x


@holder(f"{MODULE}.TABLE[torch.float16]")
def global_dict_by_a_dtype(x):
    TABLE[torch.float16] = x


@holder(f"a key of {MODULE}.TABLE")
def key_of_a_dict(x):
    TABLE[x] = "seen"


@holder(f"{MODULE}.KEPT[1][0]")
def list_of_tuples(x):
    KEPT.extend(["", (x, 1)])


@holder(f"an element of {MODULE}.SEEN")
def global_set(x):
    SEEN.add(x)


@holder("Loop.last")
def class_attribute(x):
    Loop.last = x


@holder("Loop.outputs[0]")
def list_of_an_instance(x):
    LOOP.outputs.append(x)


@holder('Session.history[0]["past"]')
def dict_in_a_list_of_an_instance(x):
    SESSION.history.append({"past": x})


@holder('Session.answers["first"].scores')
def slots_of_a_dataclass(x):
    SESSION.answers["first"] = Answer("", x)


@holder("Loop.history[0].second")
def named_tuple_in_a_deque(x):
    LOOP.history = deque([Kept(1, x)])


@holder("Session.waiting[3][2]")
def view_in_a_default_dict(x):
    SESSION.waiting = defaultdict(list, {3: [0, 0, x[:1]]})


@holder('Session.ordered["b"]')
def ordered_dict(x):
    SESSION.ordered = OrderedDict(a=1, b=x)


@holder("Session.space.deep.x")
def simple_namespace(x):
    inner = types.SimpleNamespace(x=x)
    SESSION.space = types.SimpleNamespace(deep=inner)


@holder("Net.layers[1].cache")
def attribute_of_a_module_in_a_module(x):
    NET.layers[1].cache = x


@holder("Net.head.running")
def buffer(x):
    NET.head.register_buffer("running", x)


@holder("Net.head.extra.cached")
def attribute_of_a_tensor(x):
    NET.head.register_buffer("extra", torch.zeros(0))
    NET.head.extra.cached = x


@functools.lru_cache(maxsize=1)
def mask(n):
    return torch.ones(n)


@functools.cache
def table(n):
    return {"table": torch.ones(n)}


@holder(f"lru_cache of {MODULE}.mask")
def lru_cache(x):
    mask(x.numel())


@holder(f"lru_cache of {MODULE}.table")
def unbounded_cache(x):
    table(x.numel())


@holder(f"the closure of hook at {HERE}:{{hook}} (x)")
def closure(x):
    def hook(*_):  # hook
        return x

    return NET.register_forward_hook(hook)


@holder(f"the closure of rows at {HERE}:{{rows}} (kept[0])")
def list_in_a_closure(x):
    kept = [x]

    def rows():  # rows
        return kept

    return functools.partial(print, rows)


@holder(f"a default of later at {HERE}:{{later}} (x)")
def default_of_an_argument(x):
    def later(n, x=x):  # later
        return n, x

    return later


@holder(f"{MODULE}.attribute_of_a_function.last")
def attribute_of_a_function(x):
    attribute_of_a_function.last = x


@holder(f"the suspended batches at {HERE}:{{batches}} (rows[0])")
def generator(x):
    def batches(n):  # batches
        rows = [torch.ones(n)]
        yield 1
        yield rows

    running = batches(x.numel())
    next(running)
    return running


@holder(f"frame of the caught RuntimeError at {HERE}:{{fail}} (held)")
def caught_error(x):
    def fail(n):
        held = torch.ones(n)
        raise RuntimeError(held.shape)  # fail

    n = x.numel()
    del x
    try:
        fail(n)
    except RuntimeError as error:
        ERRORS.append(error)


@holder(f"{MODULE}.CALLS.args[1]")
def partial(x):
    global CALLS
    CALLS = functools.partial(print, 1, x)


@holder(f"{MODULE}.LOCAL.x")
def thread_local(x):
    LOCAL.x = x


LOCAL = threading.local()
CALLS = None
VARIABLE = contextvars.ContextVar("state")


@holder("ContextVar 'state'")
def context_variable(x):
    VARIABLE.set(x)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kept, saved):
        ctx.kept = [kept]
        ctx.save_for_backward(saved)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


@holder("saved by Double.ctx.kept[0]")
def context_of_autograd(x):
    return Double.apply(torch.zeros(0, requires_grad=True), x.clone(), None)


@holder(
    f"saved by Double.ctx.saved_tensors[0] in the graph of the local results[{len(STEPS)}] of names"
)
def saved_tensors_of_a_context(x):
    return Double.apply(torch.zeros(0, requires_grad=True), None, x.clone())


@holder(
    "an input in the graph of Session.losses[0] | saved by MulBackward0 in the graph of"
    " Session.losses[0]"
)
def saved_by_an_operator(x):
    a = torch.ones(x.numel(), requires_grad=True)
    SESSION.losses = [(a[:0] * x[:0].clone()).sum() + (a * x.clone()).sum()]


@holder("Session.model[1].cache")
def module_of_a_library_in_an_instance(x):
    SESSION.model = nn.Sequential(nn.ReLU(), nn.ReLU())
    SESSION.model[1].cache = x


@holder(f'the local results[{len(STEPS)}]["a"].x of names')
def variable_of_a_running_function(x):
    return {"a": types.SimpleNamespace(x=x)}


@holder("Session.leaf | Session.leaf.grad")
def gradient(x):
    SESSION.leaf = x.clone().requires_grad_()
    SESSION.leaf.sum().backward()


@holder(
    "an input in the graph of Session.total | the gradient of an input in the graph of"
    " Session.total"
)
def gradient_of_an_input_of_a_graph(x):
    leaf = x.clone().requires_grad_()
    leaf.sum().backward()
    SESSION.total = leaf * 1
    SESSION.total = SESSION.total.sum()


@holder(UNSEEN)
def foreign_memory(x):
    return x.numpy()


@pytest.fixture(scope="module")
def names():
    """The names that are found, by the shape of the tensors."""
    cpu, results = open_primed("cpu"), []
    search = SearchTime(60.0)
    with cpu.window("retained", trace=True, search=search) as opened:
        for place, (_, step) in enumerate(STEPS):
            results.append(step(torch.ones(place + 1)))
    found = defaultdict(list)
    for held in opened.measurement.left:
        found[held.shape].append(held.holder)
    return {shape: " | ".join(sorted(holders)) for shape, holders in found.items()}


@pytest.mark.parametrize("place", range(len(STEPS)), ids=[s.__name__ for _, s in STEPS])
def test_holder(names, place):
    expected, _ = STEPS[place]
    assert names.get((place + 1,)) == expected.format_map(Lines())


class Lines(dict):
    """The lines of this file by their comments."""

    def __missing__(self, text):
        return line(text)
