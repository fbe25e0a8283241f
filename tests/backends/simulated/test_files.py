"""Files of tensors, in both formats, are loaded where a program says."""

import io

import pytest
import torch
from torch import nn

LOCATIONS = {
    "none": None,
    "name": "cuda",
    "host": "cpu",
    "dict": {"cpu": "cuda:0", "cuda:0": "cpu"},
    "as saved": lambda *_: None,
    "moved": lambda storage, _: storage.cuda(),
}
#: Where each leads from the host, and from the device.
DEVICES = {
    **{"none": ("cpu", "cuda"), "as saved": ("cpu", "cuda"), "name": ("cuda", "cuda")},
    **{"moved": ("cuda", "cuda"), "host": ("cpu", "cpu"), "dict": ("cuda", "cpu")},
}


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("saved_on", ["cpu", "cuda"])
@pytest.mark.parametrize("location", LOCATIONS)
def test_a_file_is_loaded_where_it_says(anywhere, tmp_path, location, saved_on, zipped):
    values = torch.arange(12.0, device=saved_on)
    large = torch.arange(1e5, device=saved_on)
    state = {"all": values, "part": values[2:6].view(2, 2), "p": nn.Parameter(values), "l": large}
    torch.save(state, tmp_path / "file", _use_new_zipfile_serialization=zipped)
    torch.empty(0, device="cuda")  # names the device

    found = torch.load(tmp_path / "file", map_location=LOCATIONS[location])

    assert {x.device.type for x in found.values()} == {DEVICES[location][saved_on == "cuda"]}
    assert found["part"].untyped_storage()._cdata == found["all"].untyped_storage()._cdata
    assert (found["part"].shape, found["part"].storage_offset()) == ((2, 2), 2)
    assert isinstance(found["p"], nn.Parameter)
    assert found["l"].sum().item() == large.sum().item()
    found["all"].add_(1)
    assert found["part"].tolist() == [[3, 4], [5, 6]]


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("location", LOCATIONS)
def test_a_file_takes_memory_where_it_is_loaded(run, tmp_path, location, zipped):
    """As on the null device: once, and only on the device."""

    def program():
        x = torch.ones(1000, device="cuda")
        torch.save(x, tmp_path / "file", _use_new_zipfile_serialization=zipped)
        return x, torch.load(tmp_path / "file", map_location=LOCATIONS[location])

    assert run(program).peak_bytes == (8000 if DEVICES[location][1] == "cuda" else 4000)


def test_a_tensor_of_the_host_is_read_onto_the_host(run):
    def program():
        weight = nn.Parameter(torch.ones(2, device="cuda"))
        optimizer = torch.optim.Adam([weight], foreach=False)
        weight.grad = torch.ones(2, device="cuda")
        optimizer.step()
        file = io.BytesIO()
        torch.save({"state": optimizer.state_dict(), "plain": torch.ones(2), "on": weight}, file)
        file.seek(0)
        read = torch.load(file)
        step = read["state"]["state"][0]["step"]
        assert [one.device.type for one in (step, read["plain"], read["on"])] == [
            *("cpu", "cpu", "cuda")
        ]
        assert (step.item(), read["plain"].tolist()) == (1, [1, 1])

    assert run(program).unmeasured is None
