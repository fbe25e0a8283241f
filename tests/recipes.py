"""The recipes of the package, from the recordings: ``python tests/recipes.py`` writes the file.

A recorded call is a recipe on the devices that ran it in every version.
"""

import json
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import recordings

from pytest_attnmem.backends.certification import recipes
from pytest_attnmem.backends.certification.recipes import CHOICE, DEVICES, Recipe
from pytest_attnmem.profiles import find_profile

#: The recordings with a row a call.
ROWS = (
    *("operators", "operators-layers", "operators-norms", "operators-layouts", "operators-others"),
    *("operators-grouped", "operators-held-out", "operators-convolutions", "operators-from-data"),
)
#: The letters of the recordings of choices; others stand for an error.
BACKENDS = "mfec"
#: The random questions that are taken: all would make the file twice as large.
MOST_DRAWN = 1200
MODES = ("cold", "deterministic", "period")


def from_recordings():
    """Returns all recipes, those of an operator together, each once."""
    found = {}
    sys.path.append(str(Path(__file__).parent / "backends" / "simulated" / "attention"))
    for version in recordings.VERSIONS:
        for recipe in (*of_rows(version), *of_attention(version), *of_choices(version)):
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
            on = DEVICES if "trace" in row else [one for one in DEVICES if one in row["traces"]]
            yield replace(of_row(row), on=tuple(on))


def of_row(row):
    modes = {mode: row[mode] for mode in MODES if mode in row}
    ieee = not row.get("allow_tf32", True)
    return Recipe(row["op"], tuple(row["args"]), row.get("kwargs", {}), **modes, ieee=ieee)


def of_attention(version):
    """Yields the calls of attention's operators, which their recording has as cases."""
    import cases

    run = {}
    for device, rows in recordings.read("attention-operators", version)["devices"].items():
        for op, case, _ in rows if device in DEVICES else ():
            run.setdefault((op, json.dumps(case)), []).append(device)
    for (op, written), devices in run.items():
        case = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in json.loads(written).items()
        }
        args = tuple(map(text, cases.arguments(op, case, "meta")))
        mode = case.get("deterministic", False)
        on = tuple(device for device in DEVICES if device in devices)
        yield Recipe(f"aten.{op}.default", args, deterministic=mode, on=on)


def of_choices(version):
    """Yields the questions which backend attends, of those that were asked with usual settings."""
    for name, questions in (("choices", usual_questions()), ("random", random_questions())):
        answers = recordings.read(f"attention-{name}", version)["devices"]
        for place, (args, gqa, mode) in questions:
            on = [
                one for one in DEVICES if answers.get(capability(one), "")[place:][:1] in BACKENDS
            ]
            yield Recipe(CHOICE, args, {"enable_gqa": gqa}, deterministic=mode, on=tuple(on))


def usual_questions():
    import cases

    for place, case in enumerate(cases.questions()):
        mode = case["setting"] == "deterministic"
        if (case["setting"] == "all" and place % 3 == 0) or mode:
            tensors = (text(one, grads=True) for one in cases.inputs(case, "meta"))
            yield place, ((*tensors, case["dropout"], case["causal"]), case["gqa"], mode)


def random_questions():
    import random_questions as drawn

    for place, case in enumerate(islice(drawn.questions(), MOST_DRAWN)):
        asked = case["setting"]
        four = all(len(one["shape"]) == 4 for one in case["tensors"])
        if four and asked["grad"] and not asked["order"] and len(asked["on"]) == len(BACKENDS):
            tensors = [drawn_text(one, case["dtype"]) for one in case["tensors"]]
            mask = case["mask"] and drawn_text(case["mask"], case["mask"]["dtype"])
            args = (*tensors, mask, case["dropout"], case["causal"])
            yield place, (args, case["gqa"], asked["deterministic"])


def drawn_text(one, dtype):
    grad = "grad " if one["grad"] else ""
    strides = ", ".join(map(str, one["strides"]))
    offset = f"@{one['offset']}" if one["offset"] else ""
    return f"{grad}{dtype}{[*one['shape']]}({strides}){offset}"


def capability(device):
    return "{}.{}".format(*find_profile(device).compute_capability)


def text(value, *, grads=False):
    """Returns an argument as a recipe has it."""
    import torch

    if isinstance(value, torch.dtype):
        return str(value)
    if not isinstance(value, torch.Tensor):
        return value
    about = "grad " if grads and value.requires_grad else ""
    about = "host " if value.device.type == "cpu" else about
    offset = f"@{value.storage_offset()}" if value.storage_offset() else ""
    plain = value.is_contiguous() and not offset
    strides = "" if plain else f"({', '.join(map(str, value.stride()))})"
    return f"{about}{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{strides}{offset}"


if __name__ == "__main__":
    recipes.write(from_recordings())
    print(recipes.FILE, len(recipes.text_of_recipes().splitlines()))
