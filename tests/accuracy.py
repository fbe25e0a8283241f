"""Write ``docs/accuracy.md``: ``python tests/accuracy.py``. A test checks that it is current."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))  # for a test that imports this

import published
from known_gaps import AT_FIRST, GAPS
from replays import KINDS, Peaks, quick_collections, read, recorded, replay, workloads

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"

#: The page but for its tables and numbers.
TEXT = Path(__file__).parent / "data" / "accuracy.md"


Found = dict[str, dict[str, tuple[Peaks, Peaks]]]
"""Workload → device → recorded and simulated."""


def page(compared: Callable[[str], Found]) -> str:
    """The whole text; ``compared`` is asked for both sets of workloads."""
    with warnings.catch_warnings(), quick_collections():
        warnings.simplefilter("ignore")
        return TEXT.read_text("utf-8").format(
            **_compared(compared("workloads"), compared("workloads_held_out")),
            **_published(),
            **_counted(),
        )


def replayed(name: str) -> Found:
    """All of a set, run again."""
    run = workloads(name)
    return {
        workload: {device: (peaks, replay(run[workload], device)) for device, peaks in on.items()}
        for workload, on in recorded(name.replace("_", "-")).items()
    }


def claimed(name: str) -> Found:
    """Returns the peaks that tests claim for each workload: exact, or with a known gap."""
    return {
        workload: {
            device: (peaks, Peaks(0, 0, 0, GAPS[workload].problem) if workload in GAPS else peaks)
            for device, peaks in on.items()
        }
        for workload, on in recorded(name.replace("_", "-")).items()
    }


def _compared(told: Found, held: Found) -> dict[str, str]:
    total = sum(map(len, held.values()))
    missed = sum(len(on) for name, on in held.items() if name in AT_FIRST)
    return {
        "torch": read("workloads")["torch"],
        "short": "\n".join(
            [
                _row("", "recordings", "no answer", "median error", "largest", "of requested"),
                _row(*["---"] * 6),
                _summary("workloads", told),
                _summary("held out, at present", held),
            ]
        ),
        "workloads": _table(told),
        "held_out": _table(held),
        "held_out_count": str(len(held)),
        "first": f"{total - missed} of {total} recordings",
        "missed": f"{missed} recordings",
        "missed_workloads": str(len(AT_FIRST)),
        "first_list": "\n".join(f"- `{name}`: {what}." for name, what in AT_FIRST.items()),
        "gaps": "".join(f"- `{name}`: {gap.why}.\n" for name, gap in GAPS.items()),
    }


def _summary(what: str, found: Found) -> str:
    pairs = [pair for on in found.values() for pair in on.values()]
    known = [(real, ours) for real, ours in pairs if not ours.problem]
    errors = [max(map(abs, ours.less(real))) for real, ours in known]
    share = max(abs(ours.requested - real.requested) / real.requested for real, ours in known)
    return (
        f"| {what} | {len(pairs)} | {len(pairs) - len(known)} | {median(errors):.0f} B |"
        f" {max(errors)} B | {share:.2%} |"
    )


def _table(found: Found) -> str:
    devices = [*dict.fromkeys(device for on in found.values() for device in on)]
    lines = [_row("workload", *KINDS, *devices), _row(*["---"] * (4 + len(devices)))]
    for name, on in found.items():
        first = next(iter(on.values()))[0]
        cells = [f"{getattr(first, kind):,}" for kind in KINDS]
        lines.append(_row(f"`{name}`", *cells, *(_error(on.get(device)) for device in devices)))
    return "\n".join(lines)


def _error(pair: tuple[Peaks, Peaks] | None) -> str:
    if pair is None:
        return "–"
    real, ours = pair
    if ours.problem:
        return "no answer"
    return " ".join(f"{each:+d}" if each else "0" for each in ours.less(real))


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _counted() -> dict[str, str]:
    lines = [_row("recordings", "content", "compared", "test"), _row(*["---"] * 4)]
    programs = read("programs")["devices"]
    lines.append(
        _row(
            "`programs.json`",
            f"peaks of {len(set().union(*programs.values()))} programs on {len(programs)} devices",
            sum(map(len, programs.values())),
            "`test_whole_programs.py`",
        )
    )
    for name in ("operators", "operators-held-out"):
        rows, devices = read(name)["calls"], read(name)["devices"]
        names = len({row["op"] for row in rows})
        lines.append(
            _row(
                f"`{name}.json`",
                f"{len(rows)} calls of {names} operators on {len(devices)} devices",
                sum(len(row.get("traces") or devices) for row in rows),
                "`scratch/test_scratch.py`",
            )
        )
    for name, what, test in (
        ("operators", "calls of attention's operators", "test_operators"),
        ("calls", "calls of `scaled_dot_product_attention`", "test_attend"),
        ("choices", "backends taken", "test_select_backend"),
    ):
        found = read(f"attention-{name}")["devices"]
        lines.append(
            _row(
                f"`attention-{name}.json`",
                f"{what} on {len(found)} devices",
                sum(map(len, found.values())),
                f"`attention/{test}.py`",
            )
        )
    runs = read("allocator")["runs"]
    lines.append(
        _row(
            "`allocator.json`",
            f"events of {len(runs)} random runs, one per setting",
            sum(len(run["events"]) for run in runs),
            "`tests/allocator/test_recorded.py`",
        )
    )
    return {"operators": "\n".join(lines)}


def _published() -> dict[str, str]:
    return {**_flash(), **_rabe_staats(), **_unsloth(), **_choices(), **_workspaces()}


def _flash() -> dict[str, str]:
    lengths = published.FLASH_LENGTHS
    lines = [_row("N", "", *lengths), _row(*["---"] * (2 + len(lengths)))]
    matches = 0
    for row, paper in published.FLASH_PAPER.items():
        closed = [_mib(published.closed_form(row, length)) for length in lengths]
        ours = [_mib(published.flash_paper(row, length)) for length in lengths]
        matches += sum(a == b for a, b in zip(closed, paper, strict=True) if b)
        lines.append(_row(row, "published", *(each or "OOM" for each in paper)))
        lines.append(_row("", "closed form", *(each or "OOM" for each in closed)))
        lines.append(_row("", "simulated", *(each or "OOM" for each in ours)))
    return {
        "flash": "\n".join(lines),
        "closed_matches": f"{matches} of 16 numbers",
        "pytorch_form": published.CLOSED_FORMS["PyTorch"],
        "flash_form": published.CLOSED_FORMS["FlashAttention"],
    }


def _mib(nbytes: int | None) -> int | None:
    return None if nbytes is None else nbytes // published.MIB


def _rabe_staats() -> dict[str, str]:
    lengths = published.MEMORY_EFFICIENT_LENGTHS
    heads = [f"2^{length.bit_length() - 1}" for length in lengths]
    lines = [_row("n", "", *heads), _row(*["---"] * (2 + len(lengths)))]
    for row, paper in published.RABE_STAATS.items():
        ours = [
            published.written(published.overhead(row, length), text)
            for length, text in zip(lengths, paper, strict=True)
        ]
        lines.append(_row(row, "published", *(text or "OOM" for text in paper)))
        lines.append(_row("", "ours", *ours))
        if row == "inference, memory-efficient":
            model = published.AS_PUBLISHED
            again = [
                published.written(published.beside_outputs(model, length), text)
                for length, text in zip(lengths, paper, strict=True)
            ]
            lines.append(_row("", "as published", *again))
    return {"rabe_staats": "\n".join(lines)}


def _unsloth() -> dict[str, str]:
    lengths = published.UNSLOTH_LENGTHS
    lines = [_row("N", "", *lengths), _row(*["---"] * (2 + len(lengths)))]
    offset = ""
    for row, paper in published.UNSLOTH.items():
        ours = [published.unsloth(row, length) / published.GIB for length in lengths]
        lines.append(_row(row, "published", *(f"{each:.2f}" for each in paper)))
        lines.append(_row("", "simulated", *(f"{each:.3f}" for each in ours)))
        less = [theirs - mine for theirs, mine in zip(paper, ours, strict=True)]
        lines.append(_row("", "difference", *(f"{each:.3f}" for each in less)))
        offset = f"{median(less):.2f}"
    return {"unsloth": "\n".join(lines), "flash_offset": offset}


def _choices() -> dict[str, str]:
    names = published.CHOICE_CASES
    lines = [_row("compute capability", *names), _row(*["---"] * (1 + len(names)))]
    same = total = 0
    for capabilities, expected in published.CHOICES.items():
        for capability in capabilities:
            found = published.chosen(capability).split()
            same += sum(a == b for a, b in zip(found, expected.split(), strict=True))
            total += len(found)
        lines.append(_row(", ".join(capabilities), *found))
    return {"choices": "\n".join(lines), "choices_count": str(same), "choices_total": str(total)}


def _workspaces() -> dict[str, str]:
    lines = [_row("device", "forward", "forward and backward"), _row(*["---"] * 3)]
    lines += [
        _row(f"`{on}`", *(f"{each:,}" for each in published.workspaces(on)))
        for on in published.WORKSPACES
    ]
    return {"workspaces": "\n".join(lines)}


if __name__ == "__main__":
    PAGE.write_text(page(replayed), "utf-8")
