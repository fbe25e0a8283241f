from pytest_attnmem.backends.simulated.process import process_device
from pytest_attnmem.backends.simulated.pytorch_device.accelerator import works_in_child
from pytest_attnmem.backends.simulated.pytorch_device.tensors import Addresses


def test_elsewhere_it_is_not_tried(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert not works_in_child()


def test_a_guard_that_pytorch_has_replaced_already_is_replaced_again():
    process_device()
    assert works_in_child()


def test_no_address_is_handed_out_twice():
    addresses = Addresses()
    first, second, third = (addresses.take(nbytes) for nbytes in (1, 513, 1))
    assert (second - first, third - second) == (512, 1024)
