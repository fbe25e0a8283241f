"""Convolutions against PyTorch's own CUDA code on the null device, with cuDNN's own plans."""

import pytest
from recordings import VERSIONS, read

from pytest_attnmem.backends.certification.null_calls import of_plan
from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import minor_version

from ..scratch.described import arguments, text
from .models import MODELS
from .planned import answers, keep_answers, results, settings_of, steps

PEAKS = read("convolution-models")["peaks"]


@pytest.mark.parametrize("version", VERSIONS)
def test_allocations_and_layouts_are_the_recorded_ones(version):
    """A device without a trace raised an error; a call in bfloat16 on a T4 has no model."""
    recorded, planned = read("operators-convolutions", version), answers(version)
    rules, wrong, told = minor_version(version + ".0"), [], 0
    profiles = {device: find_profile(device) for device in recorded["devices"]}
    for row in recorded["calls"]:
        args, _ = arguments(row, "meta")
        with settings_of(row):
            made = results(row, args)
            strides = [list(one.stride()) for one in made]
            if strides != row["strides"]:
                wrong.append((text(row), row["strides"], strides))
            for device, profile in profiles.items():
                if device not in planned:
                    continue
                ask = planned[device].__getitem__
                expected = row["trace"] if "trace" in row else row["traces"].get(device)
                if expected is None:
                    continue
                plan = steps(row, args, made, profile, rules, ask)
                if plan is None:
                    assert (device, row["args"][0].partition("[")[0]) == ("T4", "bfloat16")
                    continue
                found = of_plan(plan, made, None, cold=False)
                told += found == expected
                if found != expected:
                    wrong.append((text(row), device, expected, found))
    assert wrong == []
    assert told >= 320 * len(planned)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """Returns a function that opens a device in a session that has cuDNN's answers in its cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        keep_answers()
        yield lambda device: open_backend(f"simulated:{device}")


@pytest.mark.parametrize("device", [one for one in answers() if one in next(iter(PEAKS.values()))])
def test_models_have_the_peaks_of_the_null_device(simulated, device):
    opened, wrong = simulated(device), []
    for name, program in MODELS.items():
        opened.restart()
        seen, _ = PrimedBackend(opened, 0).run(program)
        peaks = [seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes]
        if (seen.unmeasured or peaks) != PEAKS[name][device]:
            wrong.append((name, seen.unmeasured or peaks, PEAKS[name][device]))
    assert wrong == []
