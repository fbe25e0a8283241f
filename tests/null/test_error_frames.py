"""The traceback of a program's own error ends in the program, as on a GPU."""

SCRIPT = """
import traceback
import torch
from pytest_attnmem import measure

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, gradient): return program(gradient)

def program(x): return x @ torch.ones(5, device="cuda")

def train(x): Wrong.apply(x).sum().backward()

last = []
for function in (program, train):
    try:
        measure(function, torch.ones(3, device="cuda", requires_grad=True), backend="null")
    except RuntimeError as error:
        last.append(traceback.extract_tb(error.__traceback__)[-1].name)
answer(last)
"""


def test_the_last_line_is_the_programs(under):
    assert under(SCRIPT) == (["program", "program"],)
