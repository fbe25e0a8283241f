"""The operators of a call are heard without keeping anything of the call alive."""

import weakref

import torch

from pytest_attnmem.backends.simulated.call_steps import AlikeCalls


def test_a_call_that_is_heard_frees_its_tensors_at_once(run):
    """No garbage is collected in a window, so a cycle of references would keep them."""

    def program():
        x = torch.ones(4, 4, device="cuda")
        for call in (torch.exp, torch.logsumexp, torch.cumsum):
            target = torch.empty(0, device="cuda")
            call(x, *((0,) if call is not torch.exp else ()), out=target)
            made = torch.einsum("...id,...jd->...ij", x.expand(2, 4, 4).mT, x)
            alive = [weakref.ref(one) for one in (target, made)]
            del target, made
            assert [one() for one in alive] == [None, None]

    run(program)


def test_calls_at_more_offsets_than_are_kept_are_still_made_again(run, monkeypatch):
    monkeypatch.setattr("pytest_attnmem.backends.simulated.call_steps._MOST", 2)
    moved = []
    found = AlikeCalls.moved
    monkeypatch.setattr(
        AlikeCalls, "moved", lambda self, *call: moved.append(call[0]) or found(self, *call)
    )

    def program():
        x = torch.arange(4096.0, device="cuda")
        for _ in range(2):
            found = [(x[i : i + 2] + x[:2])[0].item() for i in (0, 512, 1024, 1536)]
            assert found == [0, 512, 1024, 1536]

    run(program)
    assert moved == [(512, 0), (1024, 0), (1536, 0)] * 2
