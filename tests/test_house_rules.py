"""Rules on names and means, read from the package's source; what breaks one is listed beside it."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import pytest
from test_architecture import FILES, parsed

#: A file that one other imports has more lines, or belongs into that file.
SMALL = 20
#: A method's name is found by grep.
MOST = 5

#: Up to the first public name after a private one: ``torch._C.DispatchKey`` of each key.
PRIVATE = re.compile(r"torch(?!\.ops\b)(\.[a-z]\w*)*(\._[a-z]\w*|\._C)+(\.\w+)?")
#: Texts of errors that PyTorch gives no class of its own.
READ_TEXTS = {
    "plugin/endings.py",  # a library that the null device lacks; what crossed a process as text
    "backends/cpu.py",  # the CPU's allocator had no memory
    "backends/cuda.py",  # how much its allocator was asked for, for the message alone
}
#: Frames and reference counts that name a line or a holder, or tell a check from a program.
LOOKS_AT_FRAMES = {
    "api/limits.py",
    "plugin/substitutes.py",
    "measurement/peak_watch.py",
    "backends/tracing/dispatch_tracker.py",
    "backends/tracing/holders.py",
    "backends/simulated/session/tracer.py",
    "backends/simulated/memory/storages.py",
    "backends/simulated/program_errors.py",
    "backends/null/reads.py",
    "backends/ranks/collective_values.py",
}


@pytest.fixture(scope="module", autouse=True)
def _trees_are_freed() -> Iterator[None]:
    """As in ``test_architecture.py``, which pytest imports by another name."""
    yield
    parsed.cache_clear()


def private_names(source: str) -> set[str]:
    """Returns the private names of torch in a file, each with its module.

    A variable or an import may stand for a part of it, and an owner and a name in quotes for it.
    """
    chains, short = set(), {}
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            chains |= {*names.values()}
            short.update(names)
        elif isinstance(node, ast.Import):
            short.update({alias.asname: alias.name for alias in node.names if alias.asname})
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Attribute):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            short.setdefault(ast.unparse(target), ast.unparse(node.value))
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Attribute):
            chains.add(_whole(node, short))
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
            owner, name = node.elts
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                chains.add(f"{_whole(owner, short)}.{name.value}")
    matches = (PRIVATE.match(chain) for chain in chains)
    return {found[0] for found in matches if found} - {"torch._C"}


def _whole(node: ast.expr, short: Mapping[str, str]) -> str:
    """Returns the source of an expression with a whole name in the place of the first one."""
    first, dot, rest = ast.unparse(node).partition(".")
    return f"{short.get(first, first)}{dot}{rest}"


def test_a_private_name_of_torch_stands_in_one_file() -> None:
    files = Counter(name for source in FILES.values() for name in private_names(source))
    assert [name for name, count in files.items() if count > 1] == []


def read_texts(source: str) -> Iterator[int]:
    """Yields each line that tests the text of an error."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn, ast.Eq)):
            tested = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            begins = node.func.attr in ("startswith", "endswith")
            fits = node.func.attr in ("search", "match", "fullmatch")
            tested = [node.func.value] if begins else node.args if fits else []
        else:
            continue
        for text in map(ast.unparse, tested):
            if text.startswith("str(") and any(
                word in text for word in ("error", "exc", "failure", "raised", "refusal", "cause")
            ):
                yield node.lineno


def test_no_branch_is_on_the_text_of_an_error() -> None:
    assert {path for path, source in FILES.items() if [*read_texts(source)]} <= READ_TEXTS


def test_frames_and_reference_counts_are_read_for_names_alone() -> None:
    reads = {
        path
        for path, source in FILES.items()
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Attribute) and node.attr in ("_getframe", "getrefcount")
    }
    assert reads <= LOOKS_AT_FRAMES


def importers() -> dict[str, set[str]]:
    """Returns file → the files that import it."""
    found = defaultdict(set)
    for path, source in FILES.items():
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [*path.split("/")[: -node.level], *(node.module or "").split(".")]
                module = "/".join(part for part in base if part)
                names = [module, *(f"{module}/{alias.name}" for alias in node.names)]
                for file in (f"{name.strip('/')}.py" for name in names):
                    if file in FILES:
                        found[file].add(path)
    return found


def test_no_small_file_is_there_for_one_other() -> None:
    assert [
        path
        for path, by in importers().items()
        if len(by) == 1 and len(FILES[path].splitlines()) <= SMALL
    ] == []


def methods() -> Iterator[tuple[str, bool]]:
    """Yields each public method's name, and True if a protocol of ours has it."""
    for source in FILES.values():
        for node in ast.walk(parsed(source)):
            if not isinstance(node, ast.ClassDef):
                continue
            bases = " ".join(map(ast.unparse, node.bases))
            if "Function" in bases:  # autograd's, with forward and backward
                continue
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and not part.name.startswith(("_", "pytest_")):
                    yield part.name, "Protocol" in bases


def test_a_methods_name_can_be_found() -> None:
    found = [*methods()]
    asked = {name for name, protocol in found if protocol}
    counts = Counter(name for name, _ in found if name not in asked)
    assert {name: count for name, count in counts.items() if count > MOST} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch\ntorch._C._f(torch.ones(1))", {"torch._C._f"}),
        ("from torch.utils._pytree import tree_map", {"torch.utils._pytree.tree_map"}),
        ("from torch import _C as c\nc._f()", {"torch._C._f"}),
        ("cuda: Any = torch.cuda\ncuda._f()", {"torch.cuda._f"}),
        ("PLACE = (torch.cuda, '_f')", {"torch.cuda._f"}),
        ("torch.ops.aten.mm.default\ntorch.__version__", set()),
    ],
)
def test_a_private_name_is_found(source: str, found: set[str]) -> None:
    assert private_names(source) == found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("if 'no kernel' in str(error): pass", [1]),
        ("x = 1\nif str(error).startswith('No'): pass", [2]),
        ("found = _WANTED.search(str(error))", [1]),
        ("raise E(str(error))", []),
    ],
)
def test_a_branch_on_a_text_is_found(source: str, lines: list[int]) -> None:
    assert [*read_texts(source)] == lines
