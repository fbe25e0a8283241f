"""Threads that a program starts: they see the device, and their memory counts."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found.pop()


def test_their_tensors_are_on_the_device_and_counted(run):
    def program():
        x = in_thread(lambda: torch.ones(1000, device="cuda") * 2)
        assert (str(x.device), x.sum().item()) == ("cuda:0", 2000)
        return x

    seen = run(program)
    assert (seen.unmeasured, seen.peak_bytes, seen.retained_bytes) == (None, 8000, 4000)


def test_a_pool_moves_tensors_as_the_main_thread_does(run):
    def program():
        state = {n: torch.full((n,), float(n), device="cpu") for n in range(100, 200)}
        with ThreadPoolExecutor(4) as pool:
            moved = [*pool.map(lambda x: x.to("cuda"), state.values())]
        assert sum(x.mean().item() for x in moved) == sum(range(100, 200))
        return moved

    seen = run(program)
    assert (seen.unmeasured, seen.retained_bytes) == (None, 4 * sum(range(100, 200)))


def test_a_backward_pass_runs_in_a_thread(run):
    def program():
        layer = nn.LayerNorm(100, device="cuda")
        x = torch.ones(10, 100, device="cuda")
        in_thread(lambda: layer(x).square().sum().backward())
        return layer.weight.grad

    assert run(program).unmeasured is None


def test_a_workspace_of_another_thread_is_not_enforced(run):
    def program():
        x = torch.ones(10, 10, device="cuda")
        return in_thread(lambda: x @ x)

    assert run(program).unmeasured == (
        "no model of cuBLAS's workspace in another thread; use backend='null' or 'cuda'"
    )


def test_a_thread_that_stays_is_simulated_in_the_next_window_and_real_between(run):
    with ThreadPoolExecutor(1) as pool:

        def program():
            return pool.submit(torch.ones, 1000, device="cuda").result()

        assert run(program).retained_bytes == 4000
        assert pool.submit(torch.ones, 2).result().tolist() == [1, 1]
        seen = run(program)
        assert (seen.unmeasured, seen.retained_bytes) == (None, 4000)


def test_a_thread_that_names_the_device_late_has_the_program_run_again(run):
    def program():
        found.append(in_thread(lambda: (torch.ones(1000).to("cuda") * 2).sum().item()))

    found = []
    seen = run(program)
    assert (seen.unmeasured, seen.peak_bytes, found) == (None, 8000, [2000, 2000])


def test_an_error_of_a_thread_whose_program_runs_again_is_not_reported(run, monkeypatch):
    def fails():
        host = torch.ones(4)
        moved = host.to("cuda")
        assert str(host.device) == "cpu", "a tensor made without a device was on the device"
        return moved

    def program():
        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()

    reported = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    assert (run(program).unmeasured, reported) == (None, [])
