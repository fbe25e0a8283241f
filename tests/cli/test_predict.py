"""``attnmem predict``: what it says is what the model and the simulated device say."""

import pytest
import torch
from suites import KNOWN_DEVICES

from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.cli import main, predict
from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.registry import kernel_named
from pytest_attnmem.profiles import PROFILES
from pytest_attnmem.symbols.attention_shape import Source, gather

from .conftest import on_simulated

SMALL = ("--B", "1", "--H", "2", "--N", "16", "--d", "8")


@pytest.fixture
def ask(printed_json):
    """Returns the JSON that ``attnmem predict … --json`` prints."""
    return lambda *arguments: printed_json("predict", *arguments, "--json")


@pytest.fixture
def printed(capsys):
    """The lines of the tables."""

    def lines(*arguments):
        assert main(["predict", *arguments]) == 0
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return lines


def test_the_tables(printed):
    assert printed("linear", *SMALL, "--device", "T4") == [
        "fits T4: 22.0 MiB of 14.8 GiB: inputs 3.0 KiB, workspaces 16.3 MiB, the kernel 3.5 KiB,"
        " unused parts of segments 5.7 MiB",
        "peak 2.7 KiB (2,752 B): linear forward, B=1 H=2 Hkv=2 N=16 M=16 d=8 dv=8 float32",
        "the tensors of the model and of the simulation agree to the byte",
        "",
        "                  tensors    on T4    allocated    retained",
        "--------------  ---------  -------  -----------  ----------",
        "model, KiB            2.7      2.7            -           -",
        "simulated, KiB        2.7      2.7          3.5         1.0",
        "",
        "    phase            KiB  alive      KiB",
        "--  -------------  -----  -------  -----",
        "    features of k    1.0  phi_k      1.0",
        "    state, total     1.6  phi_k      1.0",
        "                          state      0.5",
        "                          total      0.1",
        "    features of q    1.6  state      0.5",
        "                          total      0.1",
        "                          phi_q      1.0",
        "    factor           1.7  state      0.5",
        "                          total      0.1",
        "                          phi_q      1.0",
        "                          factor     0.1",
        "*   out              2.7  state      0.5",
        "                          total      0.1",
        "                          phi_q      1.0",
        "                          factor     0.1",
        "                          out        1.0",
    ]


def test_scratch_is_marked_and_too_small_a_size_is_not_zero(printed):
    lines = printed(
        *("standard", "--B", "1", "--H", "8", "--N", "1024", "--d", "64", "--dtype", "half"),
        *("--backward", "--device", "H100"),
    )
    largest = next(place for place, line in enumerate(lines) if line.startswith("*"))
    assert lines[largest].split() == ["*", "softmax", "backward", "65.0", "weights", "16.0"]
    assert lines[largest + 3].split() == ["loss", "<0.1"]
    assert lines[largest + 6].split() == ["gradient", "times", "weights", "(scratch)", "16.0"]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", ["standard", "flash", "sliding-window"])
def test_tensors_of_the_model_and_simulated_are_the_same(ask, name, backward):
    sizes = ("--B", "2", "--H", "3", "--N", "200", "--d", "40", "--dv", "24", "--dtype", "bf16")
    found = ask(name, *sizes, *["--backward"] * backward, "--device", "H200")
    models = kernel_named(name).model
    model = models.training if backward else models.forward
    known = {"B": 2, "H": 3, "N": 200, "d": 40, "dv": 24, "dtype": "bf16", "causal": 0}
    shape = gather([Source("test", known)])
    assert found["model"] == {
        "tensors_bytes": model.peak(shape),
        "peak_bytes": model.peak(shape, ("simulated", "sm90", "cuda")),
    }
    assert found["simulated"]["tensors_bytes"] == model.peak(shape)
    assert found["shape"] == {"B": 2, "H": 3, "Hkv": 3, "N": 200, "M": 200, "d": 40, "dv": 24}
    assert (found["dtype"], found["backward"]) == ("bfloat16", backward)


@pytest.mark.parametrize("backward", [False, True])
def test_the_numbers_are_those_of_a_simulated_run(ask, backward):
    found = ask(
        *("flash", "--B", "2", "--H", "4", "--Hkv", "2", "--N", "96", "--M", "130"),
        *("--d", "32", *["--backward"] * backward, "--device", "L4"),
    )
    shapes = ((2, 4, 96, 32), (2, 2, 130, 32), (2, 2, 130, 32))
    measured, reserved = on_simulated("L4", "flash", shapes, torch.float32, backward)
    numbers = {
        f"{metric}_bytes": measured.value(metric)
        for metric in ("peak", "allocated", "reserved", "retained")
    }
    simulated = found["simulated"]
    assert {name: simulated[name] for name in numbers} == numbers
    assert found["workspace_bytes"] == open_backend("simulated:L4").prime()
    assert found["inputs_bytes"] == (2 * 4 * 96 + 2 * 2 * 2 * 130) * 32 * 4
    assert found["memory_bytes"] == PROFILES["L4"].memory_bytes
    assert found["needed_bytes"] == reserved


def test_the_phases_add_up_and_one_is_the_largest(ask):
    found = ask("standard", *SMALL, "--backward", "--causal", "--device", "H100")
    assert found["causal"] is True
    sums = [
        sum(phase["tensors"].values()) + sum(phase["scratch"].values()) for phase in found["phases"]
    ]
    assert sums == [phase["bytes"] for phase in found["phases"]]
    (largest,) = (phase for phase in found["phases"] if phase["largest"])
    assert largest["bytes"] == max(sums) == found["model"]["peak_bytes"]


def test_what_does_not_fit_is_told_with_all_that_it_would_need(ask, printed):
    much = ("standard", "--B", "8", "--H", "16", "--N", "16384", "--d", "64")
    found = ask(*much, "--device", "gtx1080")
    assert found["fits"] is False
    assert found["out_of_memory"] == "needs 128.0 GiB more"
    assert found["simulated"]["peak_bytes"] == (2 * 16384 + 64) * 8 * 16 * 16384 * 4
    assert printed(*much, "--device", "gtx1080")[0] == (
        "out of memory on GTX 1080: needs 258.0 GiB, 250.1 GiB more than its 7.9 GiB: inputs 1.5"
        " GiB, workspaces 16.3 MiB, the kernel 256.5 GiB, unused parts of segments 3.8 MiB"
    )


def test_what_almost_fits_is_told_in_bytes(printed):
    almost = ("standard", "--B", "1", "--H", "8", "--d", "64", "--N")
    fits, refused = (printed(*almost, length)[0] for length in ("36380", "36381"))
    assert fits.startswith("fits A100-80GB: 85,031,124,992 B of 85,031,714,816 B: ")
    assert refused.startswith(
        "out of memory on A100-80GB: needs 85,035,319,296 B, 3.4 MiB more than its 85,031,714,816"
        " B: "
    )


def test_the_parts_add_up_where_the_kernel_fills_the_segments_of_its_inputs(ask, printed):
    sizes = ("flash", "--B", "1", "--H", "32", "--N", "1024", "--d", "64")
    found = ask(*sizes)
    known = found["inputs_bytes"] + found["workspace_bytes"] + found["simulated"]["allocated_bytes"]
    assert found["needed_bytes"] == 62 << 20  # 20 of workspaces, 2 × 20 and 2 of all tensors
    assert known < found["needed_bytes"]
    assert printed(*sizes)[0].endswith("unused parts of segments 10.6 MiB")


def test_inputs_alone_may_not_fit(ask):
    found = ask("linear", "--B", "65536", "--H", "16", "--N", "4096", "--d", "64")
    assert (found["fits"], found["out_of_memory"]) == (False, "it does not fit")
    assert found["inputs_bytes"] > found["memory_bytes"]
    assert found["simulated"]["retained_bytes"] == 65536 * 16 * 4096 * 64 * 4


@pytest.mark.parametrize(("length", "fits"), [(2_000_000, True), (20_000_000, False)])
def test_too_many_blocks_are_not_simulated(ask, length, fits):
    sizes = ("--B", "1", "--H", "8", "--N", str(length), "--d", "64", "--dtype", "fp16")
    found = ask("flash", *sizes, "--device", "T4")
    assert found["simulated"] is None
    assert (found["fits"], found["out_of_memory"]) == (fits, None)
    parts = (found["model"]["peak_bytes"], found["inputs_bytes"], found["workspace_bytes"])
    assert found["needed_bytes"] == sum(parts)


def test_that_it_is_by_the_model_is_said(printed, monkeypatch):
    monkeypatch.setattr(predict, "MAX_STEPS", 10)
    lines = printed("flash", "--B", "1", "--H", "1", "--N", "2048", "--d", "8")
    assert not any(line.startswith("simulated") for line in lines)
    assert lines[2] == (
        "not simulated: it loops over too many blocks; all numbers are by the model"
    )


_KERNELS = ", ".join(kernel.name for kernel in KERNELS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["flsh"], f"unknown kernel 'flsh'; did you mean 'flash'? expected one of {_KERNELS}"),
        (["?"], f"unknown kernel '?'; expected one of {_KERNELS}"),
        *(
            (
                ["linear", option, size],
                f"{option}: expected a whole number >= 1 and < 2**63, got {size!r}",
            )
            for option in ("--B", "--N", "--Hkv")
            for size in ("0", "-1", "1.5", "1k", str(2**63))
        ),
        (
            ["linear", "--dtype", "int8"],
            "--dtype needs a floating dtype, such as torch.float16 or 'float16', got 'int8'",
        ),
        (
            ["linear", "--device", "H10"],
            f"unknown device 'H10'; did you mean H100? {KNOWN_DEVICES}",
        ),
        (["linear", "--Hkv", "1"], "linear has as many key heads as query heads: leave out --Hkv"),
        (["sdpa-flash", "--dv", "16"], "sdpa-flash has values as wide as its keys: leave out --dv"),
        (["linear", "--causal"], "linear is not causal: leave out --causal"),
        (
            ["linear", "--N", str(10**18)],
            "linear forward, B=1 H=2 Hkv=2 N=1000000000000000000 M=1000000000000000000 d=8 dv=8"
            " float32: the kernel raised RuntimeError: Storage size calculation overflowed with"
            " sizes=[1, 2, 1000000000000000000, 8]",
        ),
        (["flash", "--Hkv", "3"], "qkv needs H to be a multiple of Hkv, got H=2 Hkv=3"),
    ],
)
def test_what_cannot_be_predicted_is_told_in_one_line(refusal, arguments, message):
    kernel, *options = arguments
    assert refusal("predict", kernel, *SMALL, *options) == message


def test_a_kernel_that_is_always_causal_need_not_be_told(ask):
    assert ask("linear-causal", *SMALL)["causal"] is True


def test_of_a_size_that_no_tensor_has_torch_logs_nothing(refusal, caplog):
    sizes = ("--B", "1", "--H", "8", "--N", "9999999999", "--d", "64")
    line = refusal("predict", "standard", *sizes)
    assert line.startswith("standard forward, B=1 H=8 Hkv=8 N=9999999999")
    assert caplog.records == []
