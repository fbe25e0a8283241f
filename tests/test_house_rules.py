"""Rules on names and means, read from the package's source; what breaks one is listed beside it."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
from test_architecture import FILES, parsed

#: A file that one other imports has more lines, or belongs into that file.
SMALL = 20
#: A method's name is found by grep.
MOST = 5

#: Up to the first public name after a private one: ``torch._C.DispatchKey`` of each key.
PRIVATE = re.compile(r"torch(\.[a-z]\w*)*(\._[a-z]\w*|\._C)+(\.\w+)?")
#: Private names of torch in more than one file, with the most files. Nearly all are in the rooms
#: that stand in for a device: ``values``, ``backends/simulated`` and ``backends/null``.
SHARED_PRIVATE = {
    "torch._C.DisableTorchFunction": 10,
    "torch._ops.OpOverload": 8,
    "torch.utils._mode_utils.no_dispatch": 8,
    "torch._C.DispatchKey": 7,
    "torch._C.default_generator": 6,
    "torch._C.Generator": 6,
    "torch._ops": 5,
    "torch.utils._pytree.tree_map": 4,
    "torch._C._current_graph_task_id": 4,
    "torch._C._current_autograd_node": 4,
    "torch._ops.HigherOrderOperator": 3,
    "torch.utils._pytree.tree_flatten": 3,
    "torch._C._ForceDispatchKeyGuard": 3,
    "torch._C.DispatchKeySet": 3,
    "torch._C._autograd": 3,
    "torch._C._autograd._get_sequence_nr": 3,
    "torch._C._distributed_c10d": 3,
    "torch._C._functorch": 3,
    "torch._C._dispatch_has_kernel_for_dispatch_key": 3,
    "torch._prims_common.suggest_memory_format": 3,
    "torch._C._should_allow_numbers_as_tensors": 3,
    "torch.utils._pytree.tree_map_only": 2,
    "torch._subclasses.fake_tensor": 2,
    "torch.utils._python_dispatch.TorchDispatchMode": 2,
    "torch.cuda.memory._record_memory_history": 2,
    "torch.cuda.memory._snapshot": 2,
    "torch._C._functorch.get_unwrapped": 2,
    "torch._C._functorch.is_functorch_wrapped_tensor": 2,
    "torch._C._dispatch_get_all_op_names": 2,
    "torch._check": 2,
    "torch._C._get_deterministic_algorithms": 2,
    "torch._functorch.pyfunctorch": 2,
    "torch._C._DisableTorchDispatch": 2,
    "torch._C._dispatch_tls_local_include_set": 2,
    "torch._C._dispatch_tls_local_exclude_set": 2,
    "torch._C._dispatch_key_parse": 2,
    "torch._C._ExcludeDispatchKeyGuard": 2,
}
#: Texts of errors that PyTorch gives no class of its own.
READ_TEXTS = {
    "kernels/sdpa.py",  # the backend that was asked for refuses
    "plugin/endings.py",  # a library that the null device lacks
    "backends/simulated/derive_program.py",  # the program calls backward itself
}
#: Frames and reference counts that name a line or a holder, or tell a check from a program.
LOOKS_AT_FRAMES = {
    "api/limits.py",
    "plugin/substitutes.py",
    "measurement/peak_watch.py",
    "backends/tracing/dispatch_tracker.py",
    "backends/tracing/holders.py",
    "backends/simulated/tracer.py",
    "backends/simulated/allocation_lines.py",
    "backends/simulated/program_errors.py",
    "backends/null/reads.py",
    "backends/null/collectives.py",
}
#: Public methods with more definitions that no protocol and no base of torch's asks for.
COMMON_METHODS = {
    "run": 14,
    "of": 11,
    "add": 9,
    "nbytes": 9,
    "begin": 9,
    "take": 8,
    "value": 6,
    "shape": 6,
    "at": 6,
    "watch": 6,
}


def private_names(source: str) -> set[str]:
    """Returns the private names of torch in a file, each with its module."""
    chains = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Attribute):
            chains.add(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            chains |= {f"{node.module}.{alias.name}" for alias in node.names}
    matches = (PRIVATE.match(chain) for chain in chains)
    return {found[0] for found in matches if found} - {"torch._C"}


def test_a_private_name_of_torch_stands_in_one_file() -> None:
    files = Counter(name for source in FILES.values() for name in private_names(source))
    assert {n: c for n, c in files.items() if c > SHARED_PRIVATE.get(n, 1)} == {}


def read_texts(source: str) -> Iterator[int]:
    """Yields each line that tests the text of an error."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn, ast.Eq)):
            tested = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            begins = node.func.attr in ("startswith", "endswith")
            tested = [node.func.value] if begins else []
        else:
            continue
        for text in map(ast.unparse, tested):
            if text.startswith("str(") and any(
                word in text for word in ("error", "exc", "failure", "raised", "refusal")
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
    assert {n: c for n, c in counts.items() if c > COMMON_METHODS.get(n, MOST)} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch\ntorch._C._f(torch.ones(1))", {"torch._C._f"}),
        ("from torch.utils._pytree import tree_map", {"torch.utils._pytree.tree_map"}),
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
        ("raise E(str(error))", []),
    ],
)
def test_a_branch_on_a_text_is_found(source: str, lines: list[int]) -> None:
    assert [*read_texts(source)] == lines
