"""``attnmem verify``, with backends whose numbers are given."""

import json
from types import SimpleNamespace

import pytest

from pytest_attnmem.cli import main, verify
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.verification.comparison import Peaks
from pytest_attnmem.verification.device_facts import profile_facts
from pytest_attnmem.verification.workloads import WORKLOADS

FACTS = {**profile_facts(find_profile("H100")), "name": "NVIDIA H100 80GB HBM3"}
VERSIONS = {"torch": "2.13.0", "cuda": "13.0"}
EQUAL = Peaks(1000, 1024, 2048)


@pytest.fixture
def machine(monkeypatch):
    """Returns the backends that work here with what they answer, and those that were started."""
    machine = SimpleNamespace(found={}, running=[], started=[], interrupt_after=None)

    class GivenPeer:
        def __init__(self, kind, profile, variables, folder):
            self.kind, self.profile, self.variables = kind, profile, variables
            facts = None if kind == "simulated" else FACTS
            self.greeting = {"facts": facts, "versions": VERSIONS}
            machine.running.append(self)

        def start(self, until):
            if self.kind not in machine.found:
                raise BackendUnavailable(f"{self.kind}: there is none")
            machine.started.append((self.kind, self.profile and self.profile.name))

        def ask(self, name, until):
            self.asked = name
            return ""

        def answer(self, until):
            if machine.interrupt_after == self.asked:
                raise KeyboardInterrupt
            return machine.found[self.kind]

        def end(self):
            machine.running.remove(self)

    monkeypatch.setattr(verify, "Peer", GivenPeer)
    monkeypatch.setattr(verify, "environment", lambda device, beside_gpu: {"BESIDE": beside_gpu})
    yield machine
    assert machine.running == []


def test_a_gpu_is_held_to_what_stands_for_it(machine, tmp_path, capsys):
    machine.found = {"cuda": EQUAL, "null": EQUAL, "simulated": Peaks(problem="no model of it")}
    path = tmp_path / "h100.json"
    assert main(["verify", "--json", str(path)]) == 0
    assert machine.started == [("cuda", None), ("null", "H100"), ("simulated", "H100")]
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "NVIDIA H100 80GB HBM3 (torch 2.13.0, cuda 13.0), beside the profile H100"
    assert out[-1] == (
        f"{len(WORKLOADS)} workloads: 0 equal to the byte, 0 differ,"
        f" {len(WORKLOADS)} not compared on all backends"
    )
    written = json.loads(path.read_text())
    assert (written["reference"], written["complete"]) == ("cuda", True)
    assert [row["name"] for row in written["workloads"]] == [one.name for one in WORKLOADS]

    machine.found = {"null": EQUAL, "simulated": Peaks(1000, 1024, 4096)}
    assert main(["verify", "--against", str(path)]) == 1
    assert machine.started[-2:] == [("null", "H100"), ("simulated", "H100")]
    machine.found = {"simulated": EQUAL}
    assert main(["verify", "--against", str(path), "--only", "product/"]) == 0


def test_without_a_gpu_the_simulated_device_is_held_to_the_null_device(machine, capsys):
    machine.found = {"null": EQUAL, "simulated": EQUAL}
    assert main(["verify", "--only", "product/fp64", "--device", "A10G"]) == 0
    assert machine.started == [("null", "A10G"), ("simulated", "A10G")]
    out, err = capsys.readouterr()
    assert err == "no GPU: cuda: there is none\n"
    assert out.splitlines()[-1].startswith("1 workload: 1 equal to the byte")


def test_with_nothing_to_compare_it_says_what_it_would_do(machine, capsys):
    machine.found = {"simulated": EQUAL}
    assert main(["verify"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"attnmem verify: nothing to compare with; on a GPU it runs {len(WORKLOADS)} workloads on"
        " cuda, null and simulated (cuda: there is none; null: there is none)"
    )
    machine.found = {"null": EQUAL, "simulated": Peaks(problem="no model of it")}
    assert main(["verify"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "attnmem verify: nothing was measured on two backends; the reasons are above"
    )


def test_an_interrupt_keeps_what_is_done(machine, tmp_path, capsys):
    machine.found = {"null": EQUAL, "simulated": EQUAL}
    machine.interrupt_after = WORKLOADS[2].name
    path = tmp_path / "part.json"
    assert main(["verify", "--json", str(path)]) == 130
    written = json.loads(path.read_text())
    assert (len(written["workloads"]), written["complete"]) == (2, False)
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("2 workloads: 2 equal to the byte")
    assert err.splitlines()[-1] == f"not reached: {len(WORKLOADS) - 2} workloads"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seconds", "0"], "--seconds is 0.0; expected 1 to 86400"),
        (["--seconds", "nan"], "--seconds is nan; expected 1 to 86400"),
        (["--only", "nothing"], "--only: no workload has 'nothing' in its name"),
        (["--device", "H1000"], "unknown device 'H1000'; did you mean H100? expected one of"),
        (["--against", "missing.json"], "cannot read missing.json: No such file or directory"),
        (["--json", "/no/such/file"], "--json: there is no directory /no/such; create it first"),
    ],
)
def test_a_wrong_argument_is_one_line(machine, capsys, words, message):
    machine.found = {"cuda": EQUAL, "null": EQUAL}
    assert main(["verify", *words]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"attnmem verify: {message}")


def test_a_recording_of_another_torch_is_refused(machine, tmp_path, capsys, refusal):
    machine.found = {"cuda": EQUAL, "null": EQUAL}
    path = tmp_path / "h100.json"
    assert main(["verify", "--json", str(path), "--only", "product/fp64"]) == 0
    path.write_text(path.read_text().replace('"torch": "2.13.0"', '"torch": "2.9.1"'))
    capsys.readouterr()
    assert refusal("verify", "--against", str(path)) == (
        f"{path} is of torch 2.9.1, and 2.13.0 is installed here, whose kernels take other memory;"
        " install that version"
    )
