"""The checks of devices that the outcomes of an operator's calls show, and their rows."""

import json
import re
from collections import Counter, defaultdict

import recordings

from pytest_attnmem.backends.simulated.host_tensors.checks import PLAIN
from pytest_attnmem.backends.simulated.host_tensors.refusals import FILE, made

WRAPPER = re.compile(r"method wrapper_CUDA_(\w+)\)")


def known_of(outcomes):
    """Returns the text of each call whose outcome speaks of devices alone; "" if it ran."""
    texts = {tensors: {text for text, _ in seen} - {None} for tensors, seen in outcomes.items()}
    return {tensors: seen.pop() for tensors, seen in texts.items() if len(seen) == 1}


def check_for(func, outcomes):
    """Returns the check that makes all texts of an operator, and if it may allocate memory before.

    It is a name, or else texts by place, for the places that always refuse. None if the
    operator refuses nothing.
    """
    known = known_of(outcomes)
    if not any(known.values()):
        return None
    allocates = any(text and some for seen in outcomes.values() for text, some in seen)
    plain = [*PLAIN, *(f"wrapper {name}" for name in sorted(methods(known)))]
    plain += ["ldexp"] if "ldexp" in func.name() else []
    for name in (*plain, "out", *(f"out {name}" for name in plain)):
        if not wrong(name, func, known):
            return name, allocates
    return places(known), allocates


def methods(known):
    return {name for text in known.values() for name in WRAPPER.findall(text)}


def wrong(check, func, known):
    """Returns the calls whose text a check does not make."""
    run = made(check, func)
    return {tensors: text for tensors, text in known.items() if run(tensors) != text}


def places(known):
    """Returns the text that each place gives most often, if it refuses in every call."""
    texts = defaultdict(Counter)
    for tensors, text in known.items():
        on_host = [tensor for tensor in tensors if tensor.on_host]
        if len(on_host) == 1:
            texts[on_host[0].kind][text] += 1
    return {place: seen.most_common(1)[0][0] for place, seen in sorted(texts.items()) if all(seen)}


def write(found):
    """Puts this version's checks into the file, in rows shared by operators and versions."""
    by_version = defaultdict(set)
    for versions, allocates, check, ops in rows_before():
        for version in versions.split():
            for op in ops.split() if version != recordings.INSTALLED else ():
                by_version[json.dumps([allocates, check]), op].add(version)
    for op, check in found.items():
        if check is not None and check[0]:
            kept = json.dumps([int(check[1]), check[0]])
            by_version[kept, op.removeprefix("aten::")].add(recordings.INSTALLED)
    rows = defaultdict(list)
    for (kept, op), versions in sorted(by_version.items()):
        rows[" ".join(sorted(versions)), kept].append(op)
    numbers = defaultdict(lambda: len(numbers))
    lines = []
    for (versions, kept), ops in sorted(rows.items()):
        allocates, check = json.loads(kept)
        if not isinstance(check, str):
            check = {place: numbers[text] for place, text in check.items()}
        lines.append(json.dumps([versions, allocates, check, " ".join(ops)]))
    texts = ",\n".join(json.dumps(text) for text in numbers)
    body = ",\n".join(lines)
    FILE.write_text(f'{{"texts": [\n{texts}\n], "rows": [\n{body}\n]}}\n', "utf-8")
    print(FILE, len(found), "operators", len(lines), "rows", FILE.stat().st_size, "bytes")


def rows_before():
    """Yields the rows of the file, with texts in the place of numbers."""
    if FILE.exists():
        kept = json.loads(FILE.read_text("utf-8"))
        for versions, allocates, check, ops in kept["rows"]:
            if not isinstance(check, str):
                check = {place: kept["texts"][number] for place, number in check.items()}
            yield versions, allocates, check, ops
