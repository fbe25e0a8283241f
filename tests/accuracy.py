"""Writes ``docs/evidence/accuracy.md``. A test checks that it is current.

The script replays the recordings of the installed version of PyTorch; the tests hold the others to
theirs, each on its own version.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from textwrap import fill

sys.path.insert(0, str(Path(__file__).parent))  # for a test that imports this

import published
from inner_session import table
from known_gaps import AT_FIRST, GAPS, UNSETTLED
from recordings import INSTALLED, VERSIONS, read
from replays import KINDS, Peaks, quick_collections, recorded, replay, workloads

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "accuracy.md"

#: The page but for its tables and numbers.
TEXT = Path(__file__).parent / "data" / "accuracy.md"

#: The versions whose build ran here without a device: the others have recordings alone.
WITH_OUTCOMES = ("2.13", "2.15")

#: The devices whose held-out workloads were recorded after the first run, and single recordings.
RECORDED_LATER = frozenset({"B200"})
ADDED = frozenset({("linformer", "H100")})

Found = dict[str, dict[str, tuple[Peaks, Peaks]]]
"""Workload → device → recorded and simulated."""
Versions = dict[str, Found]
"""Version of PyTorch → its workloads."""


def page(compared: Callable[[str, str], Found]) -> str:
    """The whole text; ``compared`` is asked for both sets of workloads on each version."""
    with warnings.catch_warnings(), quick_collections():
        warnings.simplefilter("ignore")
        return TEXT.read_text("utf-8").format(
            **_compared(
                {version: compared("workloads", version) for version in VERSIONS},
                {version: compared("workloads_held_out", version) for version in VERSIONS},
            ),
            **_flash(),
            **_rabe_staats(),
            **_unsloth(),
            **_choices(),
            **_workspaces(),
            **_counted(),
            **_op_db(),
        )


def replayed(name: str, version: str) -> Found:
    """All of a set, run again on the installed version."""
    if version != INSTALLED:
        return claimed(name, version)
    run = workloads(name)
    return {
        workload: {device: (peaks, replay(run[workload], device)) for device, peaks in on.items()}
        for workload, on in recorded(name.replace("_", "-")).items()
    }


def claimed(name: str, version: str) -> Found:
    """Returns the peaks that tests claim for each workload: exact, or with a known gap."""

    def claim(workload: str, peaks: Peaks) -> Peaks:
        if workload in GAPS:
            return Peaks(0, 0, 0, GAPS[workload].problem)
        return replace(peaks, reserved=peaks.reserved - UNSETTLED.get(workload, 0))

    return {
        workload: {device: (peaks, claim(workload, peaks)) for device, peaks in on.items()}
        for workload, on in recorded(name.replace("_", "-"), version).items()
    }


def _compared(told: Versions, held: Versions) -> dict[str, str]:
    first = {
        name: {device for device in on.keys() - RECORDED_LATER if (name, device) not in ADDED}
        for name, on in held[VERSIONS[0]].items()
    }
    total = sum(map(len, first.values()))
    missed = sum(len(on) for name, on in first.items() if name in AT_FIRST)
    releases = [read("workloads", version)["torch"] for version in VERSIONS]
    return {
        "torch": f"{', '.join(releases[:-1])} and {releases[-1]}",
        "short": table(
            ("torch", "", "recordings", "no answer", "median", "largest", "of requested"),
            [
                *(_summary(version, "workloads", told[version]) for version in VERSIONS),
                *(_summary(version, "held out, at present", held[version]) for version in VERSIONS),
            ],
        ),
        "workloads": _table(told),
        "held_out": _table(held),
        "held_out_count": str(len(first)),
        "first": f"{total - missed} of {total} recordings",
        "missed": f"{missed} recordings",
        "missed_workloads": str(len(AT_FIRST)),
        "first_list": "\n".join(f"- `{name}`: {what}." for name, what in AT_FIRST.items()),
        "gaps": "".join(f"- `{name}`: {gap.why}.\n" for name, gap in GAPS.items()),
    }


def _summary(version: str, what: str, found: Found) -> tuple[object, ...]:
    pairs = [pair for on in found.values() for pair in on.values()]
    known = [(real, ours) for real, ours in pairs if not ours.problem]
    errors = [max(map(abs, ours.less(real))) for real, ours in known]
    share = max(abs(ours.requested - real.requested) / real.requested for real, ours in known)
    typical = f"{median(errors):.0f} B"
    counts = (len(pairs), len(pairs) - len(known))
    return (version, what, *counts, typical, f"{max(errors)} B", f"{share:.2%}")


def _table(found: Versions) -> str:
    """A row for each workload, a column for each version, with all of its devices."""
    newest = found[VERSIONS[-1]]
    lines = []
    for name, on in newest.items():
        first = next(iter(on.values()))[0]
        cells = [f"{getattr(first, kind):,}" for kind in KINDS]
        errors = (_errors(of_version.get(name, {})) for of_version in found.values())
        lines.append((f"`{name}`", *cells, *errors))
    return table(("workload", *KINDS, *found), lines)


def _errors(on: dict[str, tuple[Peaks, Peaks]]) -> str:
    """The errors on all devices, ``0 0 0 on 3``; devices whose errors differ are named."""
    by_error: dict[str, list[str]] = {}
    for device, pair in on.items():
        by_error.setdefault(_error(pair), []).append(device)
    if len(by_error) == 1:
        ((error, devices),) = by_error.items()
        return f"{error} on {len(devices)}"
    return ", ".join(f"{error} on {' '.join(devices)}" for error, devices in by_error.items())


def _error(pair: tuple[Peaks, Peaks]) -> str:
    real, ours = pair
    if ours.problem:
        return "no answer"
    return " ".join(f"{each:+d}" if each else "0" for each in ours.less(real))


def _counted() -> dict[str, str]:
    rows = []
    for file, what, test in (
        ("programs", "programs", "test_whole_programs.py"),
        ("random_programs", "programs of random steps", "test_random_programs.py"),
        ("layout_programs", "operators, random layouts", "test_random_programs.py"),
        ("mended_programs", "programs once mistaken", "test_random_programs.py"),
        ("database_programs", "programs once mistaken", "test_random_programs.py"),
        ("index_programs", "reads and writes by index", "test_random_programs.py"),
        ("deterministic_programs", "deterministic ones", "test_random_programs.py"),
        ("one_element_programs", "operators, size 1", "test_random_programs.py"),
        ("empty_programs", "calls without elements", "test_random_programs.py"),
        ("recurrent_programs", "recurrent networks", "test_random_programs.py"),
        ("forward_programs", "programs of forward mode", "test_forward_mode.py"),
    ):
        programs = [read(file, version)["devices"] for version in VERSIONS]
        number, on = len(set().union(*programs[0].values())), len(programs[0])
        counts = [sum(map(len, found.values())) for found in programs]
        devices = f"{on} device{'s' * (on > 1)}"
        rows.append((file, f"peaks of {number} {what} on {devices}", counts, test))
    sets = ("operators", "operators-layers", "operators-norms", "operators-others")
    for name in (*sets, "operators-held-out"):
        calls, devices = read(name, VERSIONS[0])["calls"], read(name, VERSIONS[0])["devices"]
        names = len({row["op"] for row in calls})
        counts = [
            sum(len(row.get("traces") or devices) for row in read(name, version)["calls"])
            for version in VERSIONS
        ]
        what = f"{len(calls)} calls of {names} operators on {len(devices)} devices"
        rows.append((name, what, counts, "scratch/test_scratch.py"))
    rows += _convolutions()
    for name, what, test in (
        ("operators", "calls of attention's operators", "test_operators"),
        ("calls", "calls of `scaled_dot_product_attention`", "test_attend"),
        ("choices", "backends taken", "test_select_backend"),
        ("cudnn", "peaks of cuDNN's attention", "test_cudnn"),
    ):
        of_all = [read(f"attention-{name}", version)["devices"] for version in VERSIONS]
        counts = [sum(map(len, found.values())) for found in of_all]
        what = f"{what} on {len(of_all[0])} devices"
        rows.append((f"attention-{name}", what, counts, f"{test}.py"))
    calls = [read("expressions", version)["peaks"] for version in VERSIONS]
    on = len(read("expressions", VERSIONS[0])["devices"])
    what = f"peaks of {len(calls[0])} calls of operators with data on {on} device{'s' * (on > 1)}"
    counts = [sum(row is not None for rows in found for row in rows) for found in calls]
    rows.append(("expressions", what, counts, "test_expressions.py"))
    runs = [read("allocator", version)["runs"] for version in VERSIONS]
    counts = [sum(len(run["events"]) for run in of_version) for of_version in runs]
    what = f"events of {len(runs[0])} random runs, one per setting"
    rows.append(("allocator", what, counts, "tests/allocator/test_recorded.py"))
    lines = [(f"`{file}`", what, *counts, f"`{test}`") for file, what, counts, test in rows]
    return {"operators": table(("recordings", "content", *VERSIONS, "test"), lines)}


def _convolutions() -> list[tuple[str, str, list[int], str]]:
    """Returns the rows of convolutions and of models that have some."""
    test, rows = "convolution/test_recorded.py", []
    for name, key, what in (
        ("operators-convolutions", "calls", "convolutions"),
        ("convolution-models", "peaks", "models with convolutions"),
    ):
        found = [read(name, version)[key] for version in VERSIONS]
        of_all = [
            [row.get("traces", row) for row in every] if key == "calls" else [*every.values()]
            for every in found
        ]
        devices = max(len(row) for row in of_all[0])
        counts = [sum(devices if "trace" in row else len(row) for row in every) for every in of_all]
        rows.append((name, f"{len(found[0])} {what} on {devices} devices", counts, test))
    return rows


def _op_db() -> dict[str, str]:
    """Returns the outcomes of the samples of ``op_db``, which ``tests/opinfo.py`` writes."""
    of_all = {version: read("opinfo-outcomes", version) for version in WITH_OUTCOMES}

    def counted(key: str) -> str:
        counts = {version: found[key].values() for version, found in of_all.items()}
        return table(
            ("torch", "samples", *of_all[WITH_OUTCOMES[0]][key]),
            [(version, sum(numbers), *numbers) for version, numbers in counts.items()],
        )

    missing = of_all[WITH_OUTCOMES[0]]["operators"]
    wrong = {name: kinds["wrong"] for name, kinds in missing.items() if "wrong" in kinds}
    return {
        "op_db": counted("counts"),
        "op_db_writes": counted("writes counts"),
        "op_db_ways": _by_way(of_all),
        "op_db_wrong": _listed(wrong) or "none",
        "op_db_refused": _listed(_refused(missing)),
        "op_db_writes_refused": _listed(_refused(of_all[WITH_OUTCOMES[0]]["writes operators"])),
    }


def _by_way(of_all: dict[str, dict[str, dict[str, dict[str, int]]]]) -> str:
    """Returns a table of the ways to call an operator: answered, refused, and wrong."""
    lines = []
    for way in of_all[WITH_OUTCOMES[0]]["ways"]:
        cells = []
        for found in of_all.values():
            counts = found["ways"][way]
            wrong = counts["wrong"] + counts["crashed"]
            cells.append(f"{sum(counts.values())}, {counts['answered']}, {wrong}")
        lines.append((f"`{way}`", *cells))
    return table(("way", *of_all), lines)


def _refused(operators: dict[str, dict[str, int]]) -> dict[str, int]:
    return {name: kinds["refused"] for name, kinds in operators.items() if "refused" in kinds}


def _listed(counts: dict[str, int]) -> str:
    text = ", ".join(f"`{name}`\xa0({count})" for name, count in counts.items())
    return fill(text, 100, break_long_words=False, break_on_hyphens=False).replace("\xa0", " ")


def _flash() -> dict[str, str]:
    lengths = published.FLASH_LENGTHS
    lines, matches = [], 0
    for row, paper in published.FLASH_PAPER.items():
        closed = [_mib(published.closed_form(row, length)) for length in lengths]
        ours = [_mib(published.flash_paper(row, length)) for length in lengths]
        matches += sum(a == b for a, b in zip(closed, paper, strict=True) if b)
        lines.append((row, "published", *(each or "OOM" for each in paper)))
        lines.append(("", "closed form", *(each or "OOM" for each in closed)))
        lines.append(("", "simulated", *(each or "OOM" for each in ours)))
    return {
        "flash": table(("N", "", *lengths), lines),
        "closed_matches": f"{matches} of 16 numbers",
        "pytorch_form": published.CLOSED_FORMS["PyTorch"],
        "flash_form": published.CLOSED_FORMS["FlashAttention"],
    }


def _mib(nbytes: int | None) -> int | None:
    return None if nbytes is None else nbytes // published.MIB


def _rabe_staats() -> dict[str, str]:
    lengths = published.MEMORY_EFFICIENT_LENGTHS
    heads = [f"2^{length.bit_length() - 1}" for length in lengths]
    lines = []
    for row, paper in published.RABE_STAATS.items():
        ours = [
            published.written(published.overhead(row, length), text)
            for length, text in zip(lengths, paper, strict=True)
        ]
        lines.append((row, "published", *(text or "OOM" for text in paper)))
        lines.append(("", "ours", *ours))
        if row == "inference, memory-efficient":
            model = published.AS_PUBLISHED
            again = [
                published.written(published.beside_outputs(model, length), text)
                for length, text in zip(lengths, paper, strict=True)
            ]
            lines.append(("", "as published", *again))
    return {"rabe_staats": table(("n", "", *heads), lines)}


def _unsloth() -> dict[str, str]:
    lengths = published.UNSLOTH_LENGTHS
    lines, offset = [], ""
    for row, paper in published.UNSLOTH.items():
        ours = [published.unsloth(row, length) / published.GIB for length in lengths]
        lines.append((row, "published", *(f"{each:.2f}" for each in paper)))
        lines.append(("", "simulated", *(f"{each:.3f}" for each in ours)))
        less = [theirs - mine for theirs, mine in zip(paper, ours, strict=True)]
        lines.append(("", "difference", *(f"{each:.3f}" for each in less)))
        offset = f"{median(less):.2f}"
    return {"unsloth": table(("N", "", *lengths), lines), "flash_offset": offset}


def _choices() -> dict[str, str]:
    names = published.CHOICE_CASES
    lines = []
    same = total = 0
    for capabilities, expected in published.CHOICES.items():
        for capability in capabilities:
            found = published.chosen(capability).split()
            same += sum(a == b for a, b in zip(found, expected.split(), strict=True))
            total += len(found)
        lines.append((", ".join(capabilities), *found))
    choices = table(("compute capability", *names), lines)
    return {"choices": choices, "choices_count": str(same), "choices_total": str(total)}


def _workspaces() -> dict[str, str]:
    lines = [
        (f"`{on}`", *(f"{each:,}" for each in published.workspaces(on)))
        for on in published.WORKSPACES
    ]
    return {"workspaces": table(("device", "forward", "forward and backward"), lines)}


def wrong() -> list[str]:
    """Returns the workloads of the installed version whose replay is not as claimed."""
    with warnings.catch_warnings(), quick_collections():
        warnings.simplefilter("ignore")
        return [
            f"torch {INSTALLED}: {workload} on {device}: {_error(found)}"
            for name in ("workloads", "workloads_held_out")
            for workload, on in replayed(name, INSTALLED).items()
            for device, found in on.items()
            if _error(found) != _error(claimed(name, INSTALLED)[workload][device])
        ]


if __name__ == "__main__":
    if VERSIONS[0] != INSTALLED:  # the published numbers on the page are of the first version
        sys.exit("\n".join(wrong()))
    PAGE.write_text(page(replayed), "utf-8")
