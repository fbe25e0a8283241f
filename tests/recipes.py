"""The recipes of the package, from the recordings: ``python tests/recipes.py`` writes the file.

A recorded call is a recipe on the devices that ran it in every version.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import recordings

from pytest_attnmem.backends.certification import recipes
from pytest_attnmem.backends.certification.recipes import DEVICES, Recipe

#: The recordings with a row a call.
ROWS = (
    *("operators", "operators-layers", "operators-norms", "operators-layouts", "operators-others"),
    *("operators-grouped", "operators-held-out", "operators-convolutions", "operators-from-data"),
)
MODES = ("cold", "deterministic", "period")


def from_recordings():
    """Returns all recipes, those of an operator together, each once."""
    found = {}
    for version in recordings.VERSIONS:
        for recipe in (*of_rows(version), *of_attention(version)):
            call = str(replace(recipe, on=()))
            before = found.setdefault(call, recipe)
            on = tuple(device for device in before.on if device in recipe.on)
            found[call] = replace(before, on=on)
    made = (
        replace(one, on=() if one.on == DEVICES else one.on) for one in found.values() if one.on
    )
    return sorted(made, key=lambda recipe: recipe.op)


def of_rows(version):
    for name in ROWS:
        for row in recordings.read(name, version)["calls"]:
            modes = {mode: row[mode] for mode in MODES if mode in row}
            on = DEVICES if "trace" in row else [one for one in DEVICES if one in row["traces"]]
            yield Recipe(
                row["op"], tuple(row["args"]), row.get("kwargs", {}), **modes,
                ieee=not row.get("allow_tf32", True), on=tuple(on),
            )  # fmt: skip


def of_attention(version):
    """Yields the calls of attention's operators, which their recording has as cases."""
    sys.path.append(str(Path(__file__).parent / "backends" / "simulated" / "attention"))
    import cases

    run = {}
    for device, rows in recordings.read("attention-operators", version)["devices"].items():
        for op, case, _ in rows if device in DEVICES else ():
            run.setdefault((op, json.dumps(case)), []).append(device)
    for (op, written), devices in run.items():
        case = {name: as_tuple(value) for name, value in json.loads(written).items()}
        args = tuple(map(text, cases.arguments(op, case, "meta")))
        mode = case.get("deterministic", False)
        on = tuple(device for device in DEVICES if device in devices)
        yield Recipe(f"aten.{op}.default", args, deterministic=mode, on=on)


def as_tuple(value):
    return tuple(value) if isinstance(value, list) else value


def text(value):
    """Returns an argument as a recipe has it."""
    import torch

    if isinstance(value, torch.dtype):
        return str(value)
    if not isinstance(value, torch.Tensor):
        return value
    host = "host " if value.device.type == "cpu" else ""
    offset = f"@{value.storage_offset()}" if value.storage_offset() else ""
    plain = value.is_contiguous() and not offset
    strides = "" if plain else f"({', '.join(map(str, value.stride()))})"
    return f"{host}{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{strides}{offset}"


if __name__ == "__main__":
    recipes.write(from_recordings())
    print(recipes.FILE, len(recipes.text_of_recipes().splitlines()))
