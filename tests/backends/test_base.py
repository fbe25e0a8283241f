"""The base class of backends, and the smallest backend."""

import subprocess
import sys
import warnings

from unavailable import refusal

from pytest_attnmem.backends import Backend, Delta, Interval, Recorder
from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.backends.registry import _MEMBERS, open_backend
from pytest_attnmem.backends.tracing.dispatch_tracker import Tracker
from pytest_attnmem.measurement import protocol


class Fixed(Recorder):
    """Sees 96 bytes allocated, and 32 of them freed, whatever runs."""

    def start(self) -> None: ...

    def stop(self) -> Interval:
        change = Delta(96, 64)
        return Interval(change, change, None, 2)


class Smallest(Backend):
    name = "smallest"
    device = "cpu:0"

    def gauge(self) -> Recorder:
        return Fixed()


OPENERS = {"smallest": lambda argument: Smallest()}


def test_the_smallest_backend_measures() -> None:
    measured, result = open_primed("smallest", OPENERS).run(lambda: 7)
    assert result == 7
    assert (measured.peak_bytes, measured.retained_bytes, measured.allocations) == (96, 64, 2)
    assert (measured.backend, measured.device) == ("smallest", "cpu:0")
    assert measured.reserved_bytes is None


def test_warnings_of_the_first_use_of_a_device_are_not_the_programs() -> None:
    class Warns(Smallest):
        def prime(self) -> int:
            warnings.warn("there was no current CUDA context!", stacklevel=1)
            return 7

    primed = open_primed("smallest", {"smallest": lambda argument: Warns()})
    assert primed.workspace_bytes == 7


def test_its_defaults() -> None:
    backend = Smallest()
    assert backend.computes
    assert backend.kinds == ("smallest", "cpu")
    assert backend.symbols == {}
    assert backend.starts_again == ""
    assert backend.prime() == 0
    assert isinstance(backend.tracer(), Tracker)
    assert backend.out_of_memory(MemoryError()) is None
    assert backend.lookahead() is None
    with backend.world():
        backend.failed(ValueError())
        assert not backend.starts_again
        backend.forget()
        backend.empty_cache()


def test_a_backend_that_is_named_as_its_device_is_of_one_kind() -> None:
    class Cpu(Smallest):
        name = "cpu"

    assert Cpu().kinds == ("cpu",)


def test_a_name_and_a_device_have_no_default() -> None:
    class Nameless(Backend):
        def gauge(self) -> Recorder:
            return Fixed()

        def __repr__(self) -> str:
            return "Nameless()"

    assert refusal(open_backend, "x", {"x": lambda argument: Nameless()}) == (
        "backend 'x' cannot be opened: TypeError: Nameless() is not a backend: missing name,"
        " device, kinds; pytest_attnmem.backends.Backend is a base class with defaults"
    )


def test_a_recorder_has_no_default() -> None:
    text = refusal(open_backend, "x", {"x": lambda argument: Backend()})
    start = "backend 'x' cannot be opened: TypeError: Can't instantiate abstract class Backend"
    assert text.startswith(start)
    assert "gauge" in text


def test_the_base_class_has_every_member_that_a_backend_needs() -> None:
    required = {name for name in vars(protocol.BackendProtocol) if not name.startswith("_")}
    assert {*_MEMBERS} == required
    assert required <= {*vars(Backend), *Backend.__annotations__}


def test_the_face_imports_no_torch() -> None:
    code = "import sys, pytest_attnmem.backends; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
