"""Writes the generated parts of the pages of :data:`PAGES`: ``python benchmarks/reference.py``.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- /generated -->``. It is made of the
package itself: signatures, docstrings, fields of classes, options, parsers, the JSON schema.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from argparse import Action, ArgumentParser
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pytest_attnmem
from pytest_attnmem import cli, profiles
from pytest_attnmem.api.attnmem import AttnMem
from pytest_attnmem.api.comparison import Comparison
from pytest_attnmem.budgets.growth_fit import Growth
from pytest_attnmem.budgets.parsing import memory_budget
from pytest_attnmem.budgets.verdict import Verdict
from pytest_attnmem.cli import explain
from pytest_attnmem.closed_forms.derived import Derived
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.measurement import Measurement
from pytest_attnmem.plugin import hookspecs
from pytest_attnmem.plugin.options import OPTIONS
from pytest_attnmem.symbols.names import ALIASES, DEFAULTS, SYMBOLS

SCHEMA: Final = Path(str(pytest_attnmem.__file__)).parent / "report" / "schema.json"
DOCS: Final = Path(__file__).parents[1] / "docs"
PAGES: Final = (DOCS / "failures.md", *sorted((DOCS / "reference").glob("*.md")))
PART: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- /generated -->)", re.DOTALL)
MEANINGS: Final = {
    "B": "batch",
    "H": "query heads",
    "Hkv": "key/value heads",
    "N": "query length",
    "M": "key/value length",
    "d": "width of a head of q and k",
    "dv": "width of a head of v",
    "itemsize": "bytes of one element",
}
METHODS: Final = ("measure", "region", "check", "compare", "growth", "derive", "qkv")
RESULTS: Final = (Measurement, Held, Verdict, Comparison, Growth, Derived)


def render(page: str) -> str:
    """Returns the page with each of its parts made anew."""
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n\n{part[3]}", page)


def signature() -> str:
    """Returns the marker as it is called."""
    given = inspect.signature(memory_budget)
    return _code(_call("@pytest.mark.memory_budget", given.parameters.values()))


def symbols() -> str:
    """Returns the table of symbols, their defaults and other names."""
    rows = []
    for symbol in SYMBOLS:
        names = [f"`{alias}`" for alias, known in ALIASES.items() if known == symbol]
        default = f"`{DEFAULTS[symbol]}`" if symbol in DEFAULTS else ""
        default = "from `dtype`" if symbol == "itemsize" else default
        rows.append([f"`{symbol}`", MEANINGS[symbol], default, ", ".join(names)])
    rows.append(["`threads`", "threads of the CPU kernels", "from torch", ""])
    return _table(["symbol", "meaning", "default", "other names"], rows)


def functions() -> str:
    """Returns the functions, and the facts of the fixture's device."""
    parts = []
    for name in METHODS:
        public = getattr(pytest_attnmem, name)
        documented = public if name in ("derive", "qkv") else getattr(AttnMem, name)
        given = [*inspect.signature(inspect.unwrap(documented)).parameters.values()]
        shown = given[1:] if given[0].name == "self" else given
        parts.append(f"### {name}\n\n{_code(_call(name, shown))}\n\n{_text(documented)}")
    for name in ("device", "computes"):
        parts.append(f"### attnmem.{name}\n\n{_text(getattr(AttnMem, name))}")
    return "\n\n".join(parts)


def results() -> str:
    """Returns the classes that the functions return."""
    return "\n\n".join(map(_class, RESULTS))


def errors() -> str:
    """Returns the table of public errors."""
    found = [getattr(pytest_attnmem, name) for name in pytest_attnmem.__all__]
    kinds = [kind for kind in found if isinstance(kind, type) and issubclass(kind, Exception)]
    rows = [
        [f"`{kind.__name__}`", ", ".join(f"`{b.__name__}`" for b in kind.__bases__), _line(kind)]
        for kind in kinds
    ]
    return _table(["error", "is a", "meaning"], rows)


def options() -> str:
    """Returns the table of pytest's options."""
    rows = []
    for option in OPTIONS:
        choices = "{" + ",".join(option.choices) + "}" if option.choices else option.metavar
        shown = option.flag if option.kind == "flag" else f"{option.flag} {choices}"
        default = f" Default: `{option.default}`." if option.default else ""
        rows.append([f"`{shown}`", f"{option.help}.{default}"])
    return _table(["option", "meaning"], rows)


def hooks() -> str:
    """Returns the hooks, and the fields of a device."""
    found = inspect.getmembers(hookspecs, inspect.isfunction)
    named = [(name, hook) for name, hook in found if name.startswith("pytest_attnmem")]
    parts = [
        f"### {name}\n\n{_code(_call(name, inspect.signature(hook).parameters.values()))}\n\n"
        + _text(hook)
        for name, hook in named
    ]
    return "\n\n".join([*parts, _class(profiles.DeviceProfile)])


def schema() -> str:
    """Returns the tables of the JSON file's objects."""
    whole = json.loads(SCHEMA.read_text(encoding="utf-8"))
    parts = [_object("The file", whole)]
    for name, kind in whole["$defs"].items():
        if "properties" in kind:
            parts.append(_object(f"`{name}`", kind))
    return "\n\n".join(parts)


def commands() -> str:
    """Returns each command, its arguments and its notes."""
    parts = []
    for module in cli.COMMANDS:
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        parser = ArgumentParser(prog=f"attnmem {name}", add_help=False)
        module.add_arguments(parser)
        rows = [_argument(action) for action in parser._actions]
        notes = f"\n\n{' '.join(parser.epilog.split())}" if parser.epilog else ""
        words = f"\n\n`{parser.usage % {'prog': parser.prog}}`" if parser.usage else ""
        table = _table(["argument", "", "meaning"], rows)
        parts.append(f"## attnmem {name}\n\n{_line(module)}{words}\n\n{table}{notes}")
    return "\n\n".join(parts)


def failures() -> str:
    """Returns the page that ``attnmem explain`` prints by section."""
    return explain.PAGE.read_text(encoding="utf-8").strip()


PARTS: Final[dict[str, Callable[[], str]]] = {
    part.__name__: part
    for part in (
        *(signature, symbols, functions, results, errors),
        *(options, hooks, schema, commands, failures),
    )
}


def _call(name: str, parameters: Iterable[inspect.Parameter]) -> str:
    """Returns a call with the parameters and their defaults, without types."""
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    text = str(inspect.Signature(bare)).replace("'", '"')
    lines = textwrap.wrap(name + text, 96, subsequent_indent=" " * (len(name) + 1))
    return "\n".join(lines)


def _code(text: str) -> str:
    return f"```py\n{text}\n```"


def _text(documented: Any) -> str:
    """Returns a docstring as Markdown: its errors are a list."""
    text = _markdown(inspect.getdoc(documented) or "")
    body, _, raised = text.partition("\nRaises:\n")
    errors = re.sub(r"\n\s{8,}", " ", raised)
    listed = re.findall(r"^\s*([\w, ]+): (.*)$", errors, re.MULTILINE)
    rows = [f"- `{name}`: {why}" for name, why in listed]
    return "\n".join([body.strip(), *(["", "Raises:", "", *rows] if rows else [])])


def _line(documented: Any) -> str:
    return _markdown(inspect.getdoc(documented) or "").partition("\n")[0]


def _markdown(text: str) -> str:
    roles = re.sub(r":\w+:`[.~]?(?:pytest_attnmem\.)?([^`]+)`", r"`\1`", text)
    return roles.replace("``", "`")


def _class(kind: type) -> str:
    """Returns a class: its docstring, fields and public properties and methods."""
    rows = [[f"`{name}`", f"`{type_}`", text] for name, type_, text in _fields(kind)]
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or not getattr(member, "__doc__", None):
            continue
        if isinstance(member, property):
            rows.append([f"`{name}`", "property", _sentence(member)])
        elif inspect.isfunction(member):
            given = [*inspect.signature(member).parameters.values()][1:]
            rows.append([f"`{_call(name, given)}`", "method", _sentence(member)])
    head = f"## {kind.__name__}\n\n{_text(kind)}"
    return f"{head}\n\n{_table(['name', 'type', 'meaning'], rows)}"


def _fields(kind: type) -> Iterable[tuple[str, str, str]]:
    """Yields name, type and docstring of the fields that the class itself defines."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            said = after.value if isinstance(after, ast.Expr) else None
            text = said.value if isinstance(said, ast.Constant) else ""
            type_ = ast.unparse(node.annotation).replace("'", "").replace(" | ", " or ")
            yield node.target.id, type_, _markdown(" ".join(str(text).split()))


def _sentence(member: Any) -> str:
    return " ".join(_markdown(inspect.getdoc(member) or "").partition("\n\n")[0].split())


def _object(title: str, kind: dict[str, Any]) -> str:
    needed = kind.get("required", ())
    rows = [
        [f"`{key}`", _type(value), "yes" if key in needed else "", value.get("description", "")]
        for key, value in kind["properties"].items()
    ]
    said = kind.get("description", "")
    table = _table(["key", "type", "always there", "meaning"], rows)
    return "\n\n".join(filter(None, [f"## {title}", said, table]))


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if "enum" in value:
        return ", ".join(f"`{json.dumps(each)}`" for each in value["enum"])
    if "anyOf" in value:
        return " or ".join(_type(each) for each in value["anyOf"])
    if value.get("type") == "array":
        return f"array of {_type(value.get('items', {})) or 'any'}"
    kinds = value.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _argument(action: Action) -> list[str]:
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        shown = name
    elif action.nargs == 0:
        shown = ", ".join(action.option_strings)
    else:
        value = f"{{{','.join(map(str, action.choices))}}}" if action.choices else name
        shown = f"{', '.join(action.option_strings)} {value}"
    needed = action.required and action.nargs not in ("*", "...")
    return [f"`{shown}`", "required" if needed else "", (action.help or "").replace("%%", "%")]


def _table(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")
