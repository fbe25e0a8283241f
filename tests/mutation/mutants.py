"""Small changes to a module's functions, one at a time, each as new code for the same functions."""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

OPPOSITE = {
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
}
COMPARED = {**OPPOSITE, **{new: old for old, new in OPPOSITE.items()}}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    """A module's syntax tree with one change."""

    line: int
    change: str
    tree: ast.Module

    def apply(self, module: ModuleType) -> None:
        """Gives the module's functions the changed code; who imported them has it too."""
        code = compile(self.tree, str(module.__file__), "exec")
        changed = dict(_functions(code))
        for owner in (module, *_classes(module)):
            for value in vars(owner).values():
                for function in _plain(value):
                    found = changed.get((function.__qualname__, function.__code__.co_firstlineno))
                    if found is not None and function.__module__ == module.__name__:
                        function.__code__ = found


def mutants(path: Path) -> Iterator[Mutant]:
    """Yields every change of the code inside the module's functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = [
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for node in ast.walk(statement)
    ]
    seen = {id(node) for above in inside for node in _without_effect(above)}
    alike: Counter[tuple[int, str]] = Counter()
    for node in inside:
        if id(node) in seen or isinstance(node, ast.FunctionDef):
            continue
        seen.add(id(node))
        for number, change in enumerate(_changes(node)):
            changed = copy.deepcopy(tree)
            target = _same(tree, changed, node)
            [*_changes(target)][number][1](target)
            alike[node.lineno, change[0]] += 1
            nth = alike[node.lineno, change[0]]
            text = change[0] if nth == 1 else f"{change[0]} (number {nth})"
            yield Mutant(node.lineno, text, ast.fix_missing_locations(changed))


def _without_effect(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the annotation of a variable or argument, and what ``strict`` says of a ``zip``."""
    if isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation is not None:
        yield from ast.walk(node.annotation)
    elif isinstance(node, ast.keyword) and node.arg == "strict":
        yield node.value


def _same(tree: ast.Module, other: ast.Module, node: ast.AST) -> ast.AST:
    pairs = zip(ast.walk(tree), ast.walk(other), strict=True)
    return next(twin for one, twin in pairs if one is node)


def _changes(node: ast.AST) -> Iterator[tuple]:
    """Yields a text, and a function that makes the change in a node."""
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            if new := COMPARED.get(type(op)):
                text = f"{type(op).__name__} to {new.__name__}"
                yield text, lambda it, place=place, new=new: it.ops.__setitem__(place, new())
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        if new := COMPUTED.get(type(node.op)):
            text = f"{type(node.op).__name__} to {new.__name__}"
            yield text, lambda it, new=new: setattr(it, "op", new())
    elif isinstance(node, ast.BoolOp):
        new = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield f"to {new.__name__}", lambda it, new=new: setattr(it, "op", new())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "without not", lambda it: setattr(it, "operand", _negated(it.operand))
    elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
        value = not node.value if type(node.value) is bool else node.value + 1
        yield f"{node.value} to {value}", lambda it, value=value: setattr(it, "value", value)
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield "condition negated", lambda it: setattr(it, "test", _negated(it.test))
    elif isinstance(node, ast.Name) and node.id in CALLED:
        new = CALLED[node.id]
        yield f"{node.id} to {new}", lambda it, new=new: setattr(it, "id", new)


def _negated(node: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), node)


def _functions(code: CodeType, prefix: str = "") -> Iterator[tuple[tuple[str, int], CodeType]]:
    """Yields name and line, and the code, of each function and method."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and "<locals>" not in constant.co_qualname:
            yield (constant.co_qualname, constant.co_firstlineno), constant
            yield from _functions(constant)


def _classes(module: ModuleType) -> list[type]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]


def _plain(value: object) -> Iterator[FunctionType]:
    """Yields the functions of a function, property, static method, class method or cache."""
    for name in ("__wrapped__", "__func__", "fget"):
        if (inner := getattr(value, name, None)) is not None:
            yield from _plain(inner)
    if isinstance(value, FunctionType):
        yield value
