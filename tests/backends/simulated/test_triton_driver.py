"""A simulated device beside Triton: its driver names the device, and no kernel is launched."""

import pytest
import torch

from pytest_attnmem.errors import CannotSimulate

triton = pytest.importorskip("triton")


@triton.jit
def one_more(x, y, n, BLOCK: triton.language.constexpr):
    """Adds one to each element."""


tuned = triton.autotune(
    configs=[triton.Config({"BLOCK": block}) for block in (64, 128)], key=["n"]
)(one_more)


@pytest.mark.parametrize("kernel", [one_more, tuned], ids=["plain", "tuned"])
def test_a_launch_is_refused_in_one_line(run, kernel):
    blocks = {"BLOCK": 64} if kernel is one_more else {}

    def launched():
        x = torch.zeros(1000, device="cuda")
        with pytest.raises(CannotSimulate) as error:
            kernel[(8,)](x, x, 1000, **blocks)
        return str(error.value)

    line = launched.__code__.co_firstlineno + 3
    assert run(launched).unmeasured == (
        f"a Triton kernel, one_more, at test_triton_driver.py:{line} cannot be simulated;"
        " use backend='null'"
    )


def test_the_driver_tells_of_the_device(returned):
    def asked():
        driver = triton.runtime.driver.active
        properties = driver.utils.get_device_properties(0)
        return [
            *(driver.get_current_target(), driver.get_current_device()),
            *(driver.get_active_torch_device(), properties["max_shared_mem"]),
            *(driver.get_device_capability(), driver.get_device_interface()),
            driver.get_current_stream(0),
        ]

    assert returned(asked, "H100") == [
        *(triton.backends.compiler.GPUTarget("cuda", 90, 32), 0, torch.device("cuda", 0), 232_448),
        *((9, 0), torch.cuda),
        torch.cuda.default_stream().cuda_stream if torch.cuda.is_available() else 0,
    ]


@pytest.mark.parametrize("ask", ["launcher_cls", "load_binary"])
def test_what_the_driver_cannot_tell_is_refused(run, ask):
    def asked():
        with pytest.raises(CannotSimulate):
            getattr(triton.runtime.driver.active, ask)

    line = asked.__code__.co_firstlineno + 2
    assert run(asked).unmeasured == (
        f"'{ask}' of Triton's driver at test_triton_driver.py:{line} cannot be simulated;"
        " use backend='null'"
    )


def test_an_unknown_number_of_the_device_is_refused(run):
    def asked():
        with pytest.raises(CannotSimulate):
            triton.runtime.driver.active.utils.get_device_properties(0)["mem_clock_rate"]

    assert run(asked).unmeasured.startswith("'mem_clock_rate' of Triton's driver at")


def test_triton_keeps_its_own_driver_outside(run):
    run(lambda: triton.runtime.driver.active)
    config = triton.runtime.driver
    assert type(vars(config)["_active"]).__module__ != "pytest_attnmem.backends.simulated"
    assert vars(config)["_active"] is vars(config)["_default"]
