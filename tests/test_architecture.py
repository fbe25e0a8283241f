"""The rules of the design that a linter does not know, read from the package's source."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

import pytest_attnmem

ROOT = Path(str(pytest_attnmem.__file__)).parent
FILES = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.rglob("*.py")}

#: A folder, or a file of the root, imports what stands left of it.
LAW = (
    *(
        "errors",
        "program_frames",
        "units",
        "suggestion",
        "contents",
        "leave",
        "formulas",
        "profiles",
        "torch_releases",
        "allocator",
        "symbols",
        "inference",
    ),
    *("nulldevice", "certified", "measurement", "budgets", "closed_forms", "values"),
    *("backends", "kernels", "baselines", "models"),
    *("api", "report", "sweep", "plugin", "profiling", "plot"),
    *("commits", "bisection", "history", "verification", "cli"),
)
#: The rooms of the simulated device, by the same law.
SIMULATED = (
    *("pytorch_device", "scratch", "patched", "program_errors", "generators", "philox_offsets"),
    *("attention", "memory", "convolution", "torch_cuda", "shapes", "operators", "session"),
)
#: The law of each folder that is a house of rooms.
LAWS = {"": LAW, "backends/simulated/": SIMULATED}
#: The modules that users import: these files may import every folder, and no folder imports them.
FACES = ("__init__", "roofline")
#: The folders that import torch at once, and the files that do elsewhere.
TORCH = (
    *("values", "backends", "kernels", "nulldevice/cudnn.py", "nulldevice/program.py"),
    "verification/workloads.py",
)
#: The modules that must wait until something is measured or printed.
HEAVY = frozenset({"torch", "numpy", "tabulate", "matplotlib"})

MAX_LINES = 500
VAGUE = frozenset(
    {"util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "tools"}
)

#: Per thread, because what it mirrors is: allocator events are told to the thread that listens.
ALLOWED_STATE = frozenset(
    {
        *(("measurement/window_stack.py", "_RUNNING"), ("measurement/garbage.py", "_OURS")),
        ("measurement/project.py", "_PROJECT"),  # the rootdir of this process
        ("backends/simulated/patched.py", "_VALUES"),  # of PyTorch's attributes
        ("backends/simulated/session/process.py", "_PROCESS"),  # PyTorch's registrations
        ("backends/certification/recipes.py", "lines_by_operator"),  # a file of the package
        ("measurement/installed_torch.py", "_certificate_of"),  # another
        ("backends/certification/installed.py", "_certifier"),  # a process for each device
        ("nulldevice/counts.py", "runtime"),  # a library of this process
        ("values/host_table.py", "operators"),  # of modules of the package
        ("backends/simulated/generators.py", "_OWNERS"),  # weak, as generators outlive a session
    }
)
MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
MUTABLE_TYPES = frozenset(
    {"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict"}
    | {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "local", "count", "cycle", "iter"}
)
CHANGING = frozenset(
    {"append", "extend", "insert", "remove", "pop", "popitem", "clear", "update", "setdefault"}
    | {"add", "discard", "sort", "reverse"}
)

Check = Callable[[str, str], Iterator[str]]

#: Each rule reads each file.
parsed = cache(ast.parse)


@pytest.fixture(scope="module", autouse=True)
def _trees_are_freed():
    """Frees 400,000 objects, which each full collection of garbage would visit."""
    yield
    parsed.cache_clear()


def nodes(tree: ast.AST, at_import: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """Every node of a module, and whether it runs when the module is imported."""
    for node in ast.iter_child_nodes(tree):
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            inside = True
        yield node, at_import
        yield from nodes(node, at_import and not inside)


def imports(path: str, source: str) -> Iterator[tuple[str, bool]]:
    """Yields each import of a file, ours as ``.backends.cpu``, and True if it runs at once."""
    for node, at_import in nodes(parsed(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, at_import) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module), at_import
        elif isinstance(node, ast.ImportFrom):
            base = [*PurePosixPath(path).parts[: -node.level], *(node.module or "").split(".")]
            names = [""] if node.module else [alias.name for alias in node.names]
            yield from (
                ("." + ".".join(part for part in [*base, name] if part), at_import)
                for name in names
            )


def room(name: str, house: str = "") -> str:
    """Returns the folder or the file in a house, of a path or of a module such as ``.units``."""
    path = name.lstrip(".").removesuffix(".py").replace(".", "/")
    return PurePosixPath(path.removeprefix(house)).parts[0]


def own(name: str) -> str:
    """Returns a module of ours as ``.budgets.budget``, by whatever name it is imported."""
    return name.removeprefix("pytest_attnmem") if name.startswith("pytest_attnmem.") else name


def wrong_imports(path: str, source: str) -> Iterator[str]:
    """Yields each import that breaks the law, and each of pytest or torch in a wrong place."""
    here = room(path)
    for name, at_import in imports(path, source):
        top, module = name.partition(".")[0], own(name)
        if top in ("pytest", "_pytest", "pluggy") and here != "plugin":
            yield f"{path} imports {name}"
        if top in HEAVY and at_import and not path.startswith(TORCH):
            yield f"{path} imports {name} at once"
        if top == "torch" and here == "plugin":
            yield f"{path} imports {name}"
        if module[0] != "." or module == ".__version__":
            continue
        for house, law in LAWS.items():
            if path.startswith(house) and module[1:].replace(".", "/").startswith(house):
                place, imported = room(path, house), room(module, house)
                if place in (*FACES, imported):
                    continue
                if imported in FACES or law.index(imported) > law.index(place):
                    yield f"{path} imports {name}, which stands right of {place}"


def vague_names(path: str, source: str) -> Iterator[str]:
    """A name that would fit any file fits none."""
    parts = PurePosixPath(path).with_suffix("").parts
    for vague in sorted(
        VAGUE.intersection(*[{word for part in parts for word in part.split("_")}])
    ):
        yield f"{path} is called {vague}"


def long_files(path: str, source: str) -> Iterator[str]:
    """Nobody reads a file that is longer."""
    lines = len(source.splitlines())
    if lines > MAX_LINES:
        yield f"{path} has {lines} lines"


def undocumented(path: str, source: str) -> Iterator[str]:
    """Every module says what it is for."""
    if not ast.get_docstring(parsed(source)):
        yield f"{path} has no docstring"


def forbidden_statements(path: str, source: str) -> Iterator[str]:
    """Pytest would rewrite an assert, and nothing here runs text as code."""
    for node, _ in nodes(parsed(source)):
        if isinstance(node, ast.Assert):
            yield f"{path}:{node.lineno} asserts"
        if isinstance(node, ast.Name) and node.id in ("eval", "exec", "__import__"):
            yield f"{path}:{node.lineno} uses {node.id}"


def mutable_state(path: str, source: str) -> Iterator[str]:
    """State lives in pytest's stashes and in objects, not in modules and classes.

    Kernels keep fragments of their models in dicts, as constants: those may not be changed.
    """
    tree = parsed(source)
    constants = path.startswith("kernels/")
    for node, at_import in nodes(tree):
        if isinstance(node, ast.Global):
            yield f"{path}:{node.lineno} has a global {', '.join(node.names)}"
        remembers = isinstance(node, ast.FunctionDef) and any(
            "cache" in ast.unparse(decorator) for decorator in node.decorator_list
        )
        if remembers and (path, node.name) not in ALLOWED_STATE:
            yield f"{path}:{node.lineno} {node.name} remembers its results"
        if not (at_import and isinstance(node, ast.Assign | ast.AnnAssign) and node.value):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for name in (target.id for target in targets if isinstance(target, ast.Name)):
            if name == "__all__" or (path, name) in ALLOWED_STATE:
                continue
            fragment = constants and isinstance(node.value, ast.Dict | ast.DictComp)
            if fragment and (line := _changed(name, tree)):
                yield f"{path}:{line} changes {name}"
            if _is_mutable(node.value, tree) and not fragment:
                yield f"{path}:{node.lineno} {name} can change"


def _is_mutable(value: ast.expr, tree: ast.Module) -> bool:
    if isinstance(value, ast.Tuple):
        return any(_is_mutable(element, tree) for element in value.elts)
    if not isinstance(value, ast.Call):
        return isinstance(value, MUTABLE)
    maker = ast.unparse(value.func).rpartition(".")[2].partition("[")[0]
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if maker in classes:
        frozen = [ast.unparse(line) for line in classes[maker].decorator_list]
        bases = [ast.unparse(base) for base in classes[maker].bases]
        return "NamedTuple" not in bases and not any("frozen=True" in line for line in frozen)
    return maker in MUTABLE_TYPES


def _changed(name: str, tree: ast.Module) -> int:
    """The line on which something changes the dict of this name, or 0."""
    for node, _ in nodes(tree):
        changed: ast.AST | None = None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed = node.value
        if isinstance(node, ast.AugAssign):
            changed = node.target
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changed = node.func.value if node.func.attr in CHANGING else None
        if isinstance(changed, ast.Name) and changed.id == name:
            return changed.lineno
    return 0


def errors_in_variables(path: str, source: str) -> Iterator[str]:
    """No function that a program calls keeps the error that it raises in a variable.

    The error, its traceback and the frame with the variable make a cycle, which holds the frames of
    the program, and its tensors.
    """
    if path.partition("/")[0] not in ("backends", "values"):
        return
    for function in ast.walk(parsed(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        stored = {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for node in ast.walk(function):
            raised = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(raised, ast.Name) and raised.id in stored:
                yield f"{path}:{node.lineno} raises the variable {raised.id}"


CHECKS = (
    errors_in_variables,
    wrong_imports,
    vague_names,
    long_files,
    undocumented,
    forbidden_statements,
    mutable_state,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_package_keeps_the_rule(check: Check) -> None:
    assert [found for path, source in sorted(FILES.items()) for found in check(path, source)] == []


def test_the_package_was_read() -> None:
    assert {"api/attnmem.py", "plugin/options.py", "report/json.py", "backends/cpu.py"} <= set(
        FILES
    )
    assert {path for path, _ in ALLOWED_STATE} <= set(FILES)


def test_every_folder_has_its_place_in_the_law() -> None:
    assert {room(path) for path in FILES} == {*LAW, *FACES}
    for house, law in LAWS.items():
        inside = {room(path, house) for path in FILES if path.startswith(house)}
        assert inside - {*FACES} == {*law}


@pytest.mark.parametrize(
    ("path", "source", "found"),
    [
        ("budgets/x.py", "import pytest", "budgets/x.py imports pytest"),
        ("budgets/x.py", "def f():\n  from pytest import mark", "budgets/x.py imports pytest"),
        ("budgets/x.py", "import torch.nn as nn", "budgets/x.py imports torch.nn at once"),
        ("units.py", "try:\n  import numpy\nfinally: pass", "units.py imports numpy at once"),
        ("units.py", "class A:\n  import torch", "units.py imports torch at once"),
        ("report/html.py", "from tabulate import x", "report/html.py imports tabulate at once"),
        ("backends/cpu.py", "def f():\n  import pytest", "backends/cpu.py imports pytest"),
        ("plugin/__init__.py", "def f():\n  import torch", "plugin/__init__.py imports torch"),
        ("nulldevice/build.py", "import torch", "nulldevice/build.py imports torch at once"),
        ("budgets/x.py", "from ..plugin.plan import x", "budgets/x.py imports .plugin.plan,"
         " which stands right of budgets"),
        ("units.py", "from .formulas import formula", "units.py imports .formulas, which stands"
         " right of units"),
        ("units.py", "def f():\n  from . import profiles", "units.py imports .profiles, which"
         " stands right of units"),
        ("report/html.py", "from pytest_attnmem.cli import x", "report/html.py imports"
         " pytest_attnmem.cli, which stands right of report"),
        ("kernels/x.py", "from ..roofline import x", "kernels/x.py imports .roofline, which"
         " stands right of kernels"),
        ("backends/simulated/memory/x.py", "from ..shapes.y import x", "backends/simulated/memory/x"
         ".py imports .backends.simulated.shapes.y, which stands right of memory"),
        ("budgets/x.py", "def f():\n  import torch", ""),
        ("budgets/x.py", "if TYPE_CHECKING:\n  import torch", ""),
        ("budgets/x.py", "from ..units import shown\nimport torchless", ""),
        ("backends/cpu.py", "import torch\nfrom .tracing.x import X\nfrom ..errors import E", ""),
        ("plugin/x.py", "import pytest\nfrom . import hookspecs\nfrom ..api.attnmem import x", ""),
        ("roofline.py", "from .inference.roof import x", ""),
        ("cli/__init__.py", "from .. import __version__", ""),
    ],
)  # fmt: skip
def test_a_wrong_import_is_found_and_a_right_one_is_not(path: str, source: str, found: str) -> None:
    assert "|".join(wrong_imports(path, source)) == found


LOCAL_ERROR = "def f():\n  error = ValueError()\n  raise error"


@pytest.mark.parametrize(
    ("check", "path", "source", "found"),
    [
        (vague_names, "utils.py", "", "utils.py is called utils"),
        (vague_names, "report/common.py", "", "report/common.py is called common"),
        (vague_names, "window_manager.py", "", "window_manager.py is called manager"),
        (vague_names, "helpers/budget.py", "", "helpers/budget.py is called helpers"),
        (vague_names, "commonly/utility.py", "", ""),
        (long_files, "api.py", "x\n" * 501, "api.py has 501 lines"),
        (long_files, "api.py", "x\n" * 500, ""),
        (undocumented, "api.py", "x = 1", "api.py has no docstring"),
        (undocumented, "api.py", "'''Text.'''", ""),
        (forbidden_statements, "api.py", "x = 1\nassert x", "api.py:2 asserts"),
        (forbidden_statements, "api.py", "def f():\n  def g():\n    assert 0", "api.py:3 asserts"),
        (forbidden_statements, "api.py", "x = eval('1')", "api.py:1 uses eval"),
        (forbidden_statements, "api.py", "f = exec", "api.py:1 uses exec"),
        (forbidden_statements, "api.py", "__import__('os')", "api.py:1 uses __import__"),
        (forbidden_statements, "api.py", "model.eval()\nx = 'assert eval'", ""),
        (
            errors_in_variables,
            "values/x.py",
            LOCAL_ERROR,
            "values/x.py:3 raises the variable error",
        ),
        (errors_in_variables, "plugin/x.py", LOCAL_ERROR, ""),
        (errors_in_variables, "values/x.py", "def f(error):\n  raise error", ""),
    ],
)
def test_a_rule_finds_what_breaks_it_alone(
    check: Check, path: str, source: str, found: str
) -> None:
    assert "|".join(check(path, source)) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("X = []", "api.py:1 X can change"),
        ("X: dict[str, int] = {}", "api.py:1 X can change"),
        ("X = Y = {1}", "api.py:1 X can change|api.py:1 Y can change"),
        ("X = {i: 1 for i in 'ab'}", "api.py:1 X can change"),
        ("X = (i for i in 'ab')", "api.py:1 X can change"),
        ("X = list('ab')", "api.py:1 X can change"),
        ("X = collections.defaultdict(int)", "api.py:1 X can change"),
        ("X = dict[str, int]()", "api.py:1 X can change"),
        ("X = (1, [])", "api.py:1 X can change"),
        ("if True:\n  X = []", "api.py:2 X can change"),
        ("class A:\n  X = []", "api.py:2 X can change"),
        ("class A: pass\nX = A()", "api.py:2 X can change"),
        ("@dataclass\nclass A: pass\nX = A()", "api.py:3 X can change"),
        ("X = 0\ndef f():\n  global X\n  X = 1", "api.py:3 has a global X"),
        ("@lru_cache\ndef f(): pass", "api.py:2 f remembers its results"),
        ("@functools.cache\ndef f(): pass", "api.py:2 f remembers its results"),
        ("X = (1, 'a', None)", ""),
        ("X = frozenset({1})", ""),
        ("X = MappingProxyType({'a': 1})", ""),
        ("X = re.compile('a')", ""),
        ("X: int\n__all__ = ['f']", ""),
        ("def f():\n  x = []\n  return x", ""),
        ("@dataclass(frozen=True, slots=True)\nclass A: pass\nX = A()", ""),
        ("class A(NamedTuple): pass\nX = A()", ""),
        ("X = pytest.StashKey[dict[str, int]]()", ""),
        ("class A:\n  x: list[int] = field(default_factory=list)", ""),
    ],
)
def test_mutable_state_is_found_and_what_cannot_change_is_not(source: str, found: str) -> None:
    assert "|".join(mutable_state("api.py", source)) == found


def test_one_name_is_allowed_to_be_state_where_it_is() -> None:
    source = "class _Running(threading.local): pass\n_RUNNING = _Running()"
    assert list(mutable_state("measurement/window_stack.py", source)) == []
    assert list(mutable_state("api.py", source)) == ["api.py:2 _RUNNING can change"]


@pytest.mark.parametrize(
    "change", ["X['b'] = 1", "del X['a']", "X |= {}", "X.update(b=1)", "def f():\n  X.pop('a')"]
)
def test_a_kernels_constants_may_be_dicts_that_nothing_changes(change: str) -> None:
    source = "X = {'a': 'N*d'}\nY = {**X}\n"
    assert list(mutable_state("kernels/flash.py", source)) == []
    line = 4 if "def" in change else 3
    assert list(mutable_state("kernels/flash.py", source + change)) == [
        f"kernels/flash.py:{line} changes X"
    ]
