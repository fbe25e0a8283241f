"""Where a model comes from: a function of a module, an instance, or a config of transformers."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..errors import BudgetError
from ..units import kind_of, shown

_TRANSFORMERS: Final = "transformers"


def source_of(text: str, arguments: Sequence[str] = (), config: str = "") -> Any:
    """Returns a module, or a function without arguments that makes one.

    ``text`` is ``pkg.mod:name`` or ``transformers:LlamaForCausalLM``, whose ``config`` is a JSON
    file or the folder of a ``config.json``. ``arguments`` are written ``name=value``; for a config
    they replace its entries. Nothing is downloaded.

    Raises:
        BudgetError: the name cannot be found, or the config cannot be read.
    """
    named = dict(map(_argument, arguments))
    if text.partition(":")[0] == _TRANSFORMERS:
        return _of_config(text, config, named)
    if config:
        raise BudgetError(f"--config is for transformers:CLASS, not for {shown(text)}; use --arg")
    found = named_object(text)
    if not callable(found):
        raise BudgetError(f"{shown(text)} is {kind_of(found)}; expected a function")
    is_module = "forward" in dir(found) and not isinstance(found, type)
    if is_module and named:
        raise BudgetError(f"{shown(text)} is a module, which takes no --arg")
    if not is_module and (missing := _missing(found, named)):
        words = " ".join(f"--arg {name}=…" for name in missing)
        raise BudgetError(f"{shown(text)} takes {', '.join(missing)}; write {words}")
    return found if is_module else partial(found, **named)


def _missing(function: Any, named: Mapping[str, Any]) -> list[str]:
    """Returns the arguments without a default that ``named`` lacks; none if they are not known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a builtin
        return []
    own = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = (one.name for one in parameters if one.kind in own and one.default is one.empty)
    return [name for name in needed if name not in named]


def _of_config(text: str, config: str, named: Mapping[str, Any]) -> Callable[[], Any]:
    if not config:
        raise BudgetError(f"{shown(text)} needs its sizes: --config config.json")
    path = Path(config)
    path = path / "config.json" if path.is_dir() else path
    try:
        entries = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BudgetError(f"--config: {error.strerror}: {shown(str(path))}") from None
    except (ValueError, RecursionError) as error:
        raise BudgetError(f"--config: {path} is not JSON: {error}") from None
    if not isinstance(entries, dict):
        raise BudgetError(f"--config: {path} has no object of sizes")
    cls = named_object(text)
    config_class = getattr(cls, "config_class", None)
    if config_class is None:
        raise BudgetError(f"{shown(text)} has no config; name a model such as LlamaForCausalLM")
    return lambda: cls(config_class.from_dict({**entries, **named}))


def named_object(path: str) -> Any:
    """Returns the object ``pkg.mod:name``; the current folder is searched too.

    Raises:
        BudgetError: there is no such module or name, or its import fails.
    """
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise BudgetError(f"cannot find {path!r}; write the module, a colon and the name")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as python -m does
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        slip = f"; write {module[:-3]}:{name}" if module.endswith(".py") else ""
        raise BudgetError(f"cannot find {path!r}: {error}{slip}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of the module: pytest and sys.exit() raise no Exception
        raise BudgetError(f"cannot import {path!r}: {shown(error, 200)}") from error
    return found


def assigned(option: str, text: str, example: str) -> tuple[str, str]:
    """Returns the name and the value that an option gives as ``name=value``.

    Raises:
        BudgetError: the text is not so written.
    """
    text = text or "--"  # argparse reads --arg=-- as an empty list
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        raise BudgetError(f"cannot read {option} {shown(text)}; write {option} {example}")
    return name, value


def _argument(text: str) -> tuple[str, Any]:
    name, value = assigned("--arg", text, "n_layer=12")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
