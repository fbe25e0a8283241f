"""The tape, with meta tensors as a device that computes nothing."""

import gc
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pytest_attnmem.errors import CannotCompute, UnknownValue
from pytest_attnmem.values import host_memory, host_tensor, replay
from pytest_attnmem.values.compute import compute
from pytest_attnmem.values.notes import Buffer, Random, Slot
from pytest_attnmem.values.tape import Seeds, Tape


def maker(device, tape=None):
    """Returns a function that makes a tensor of its arguments there, with the tape of its notes."""

    def make(*data):
        return torch.tensor(data).to(device)

    make.device, make.tape = device, tape
    return make


class MetaStorages:
    """The slots of the storages of meta tensors, kept as long as the storages are."""

    def __init__(self):
        self.slots = {}
        self.offset = 0

    def find(self, tensor):
        if not tensor.is_meta:
            return None
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.slots:
            self.slots[key] = Slot(Buffer(0, "no operator wrote it"))
            weakref.finalize(storage, self.slots.pop, key).atexit = False
        return self.slots[key]

    def all(self):
        yield from [*self.slots.values()]

    def random(self, func, args, kwargs):
        self.offset += 4
        return Random(torch.initial_seed(), self.offset)


class Noting(TorchDispatchMode):
    def __init__(self, limit, most):
        super().__init__()
        self.storages = MetaStorages()
        self.tape = Tape(self.storages, limit, most)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        device = kwargs.get("device")
        leaves = tree_leaves((args, kwargs))
        if not any(isinstance(leaf, torch.Tensor) and leaf.is_meta for leaf in leaves) and (
            device is None or device.type != "meta"
        ):
            self.tape.run_on_host(func, args, kwargs)
            return func(*args, **kwargs)
        call = self.tape.begin(func, args, kwargs)
        out = func(*args, **kwargs)
        self.tape.end(call, out)
        return out


@pytest.fixture
def noted():
    """Returns a function that runs a program on the device, and its tape."""

    def run(program, limit=10**9, most=10**6):
        mode = Noting(limit, most)
        with mode:
            return program(maker("meta", mode.tape)), mode.tape

    return run


def unknown(tape, tensor, reason):
    """Checks that the values of a tensor are unknown for this reason."""
    with pytest.raises(UnknownValue) as error:
        tape.value_of(tensor)
    assert str(error.value) == reason


def in_place(make):
    a = make(1.0, 2.0, 3.0, 4.0)
    doubled = a * 2
    a.add_(10)
    later = a * 2
    a[1:3].zero_()
    return {"a": a, "doubled": doubled, "later": later}


def views(make):
    a = make(1.0, 2.0, 3.0, 4.0)
    square = a.view(2, 2)
    square.t()[0].mul_(10)
    pairs = torch.view_as_complex(square)
    return {"a": a, "turned": square.t(), "end": a.data[2:], "complex": pairs.conj()}


def overwritten(make):
    a = make(1.0, 2.0)
    copy = a + 0
    a.copy_(a.flip(0) * 3)
    first = a + 0
    a.fill_(7)
    out = torch.empty(2, device=make.device)
    torch.add(a, first, out=out)
    grown = torch.empty(0, device=make.device)
    torch.arange(5.0, out=grown)
    return {
        "copy": copy,
        "first": first,
        "a": a,
        "out": out,
        "grown": grown,
        "zeros": torch.zeros_like(a),
    }


def trained(make):
    w = make(1.0, -2.0).requires_grad_()
    optimizer = torch.optim.AdamW([w], lr=0.5, foreach=False)
    for _ in range(3):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    return {"w": w.detach(), "gradient": w.grad}


def filled_by_rows(make):
    out = torch.empty(2, 2, device=make.device)
    for row in range(2):
        out[row] = make(1.0, 2.0) * row
    return {"out": out}


@pytest.mark.parametrize("program", [in_place, views, overwritten, trained, filled_by_rows])
@pytest.mark.parametrize("backwards", [False, True])
def test_values_are_those_of_the_cpu_in_whatever_order_they_are_read(noted, program, backwards):
    expected = program(maker("cpu"))
    tensors, tape = noted(program)
    for name in sorted(tensors, reverse=backwards):
        values = tape.value_of(tensors[name])
        assert values.tolist() == expected[name].tolist(), name


@torch.inference_mode()
def test_a_program_in_inference_mode_has_values(noted):
    def program(make):
        host = torch.tensor([1.0, 2.0])
        return torch.empty(2, device=make.device).copy_(host).mul_(2)

    doubled, tape = noted(program)
    assert tape.value_of(doubled).tolist() == [2, 4]


def test_only_what_a_value_depends_on_is_run_and_only_once(noted):
    def program(make):
        a = make(1.0, 2.0)
        return [a + 1, a * 3, (a * 3).sum()]

    (plus, times, total), tape = noted(program)
    assert tape.value_of(total).item() == 9
    assert tape.replay.notes_run == 3
    assert tape.value_of(plus).tolist() == [2, 3]
    assert tape.replay.notes_run == 4
    tape.value_of(plus), tape.value_of(total)
    assert tape.replay.notes_run == 4
    assert tape.value_of(times).tolist() == [3, 6]


def test_random_numbers_are_the_same_each_time_and_leave_the_host_generator_alone(noted):
    def program(make):
        return [torch.rand(4, device="meta"), torch.rand(4, device="meta")]

    torch.manual_seed(3)
    state = torch.get_rng_state()
    (first, second), tape = noted(program)
    (again, _), other = noted(program)
    assert torch.equal(tape.value_of(first), other.value_of(again))
    assert not torch.equal(tape.value_of(first), tape.value_of(second))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_devices_generator_has_no_seed_of_the_hosts():
    """The host's generator uses 32 bits of a seed, and programs give it small ones."""
    seeds = [
        Random(seed, offset).host_seed % 2**32 for seed in range(100) for offset in range(0, 80, 4)
    ]
    assert len({*seeds, *range(10_000)}) == 2000 + 10_000
    assert max(Random(2**64 - 1, offset).host_seed for offset in range(99)) < 2**63


def test_memory_that_nothing_wrote_is_not_a_number(noted):
    tensors, tape = noted(
        lambda make: [
            torch.empty(1, device="meta"),
            torch.empty(1, device="meta", dtype=torch.int8),
            torch.empty(1, device="meta", dtype=torch.bool),
        ]
    )
    assert str([tape.value_of(tensor).item() for tensor in tensors]) == "[nan, 127, True]"


CHANGED = "a tensor of the host has changed since the device read it"


def test_a_large_tensor_of_the_host_is_copied_when_the_program_writes_it_and_not_before(noted):
    large = torch.ones(100_000)

    def program(make):
        moved = [large.to("meta"), large[50_000:].to("meta") + 1]
        large.add_(1)
        return [*moved, large.to("meta")]

    moved, tape = noted(program)
    assert [tape.value_of(one)[0].item() for one in moved] == [1, 2, 2]
    moved, tape = noted(lambda make: large.to("meta") + 1)
    large.add_(1)
    unknown(tape, moved, CHANGED)


def test_old_contents_are_unknown_if_the_host_has_no_room_or_an_array_may_have_written(
    noted, monkeypatch
):
    large = torch.ones(100_000)

    def program(make):
        moved = large.to("meta")
        large.add_(1)
        return moved

    monkeypatch.setattr(host_tensor, "SMALL", 1000)
    monkeypatch.setattr(host_tensor, "free_memory", lambda: 700_000)
    unknown(*reversed(noted(program)), CHANGED)
    moved, tape = noted(lambda make: large.to("meta"))
    large.numpy()[0] = 5
    unknown(tape, moved, CHANGED)


def test_the_work_of_a_read_has_a_limit(noted):
    (small, product), tape = noted(
        lambda make: [
            make(1.0) + 1,
            torch.ones(64, 64, device="meta") @ torch.ones(64, 64, device="meta"),
        ],
        limit=64**3,
    )
    assert tape.value_of(small).item() == 2
    limit = "it takes 5.3e+05 floating-point operations, and --attnmem-values-limit is 2.6e+05"
    unknown(tape, product, limit)


def test_a_value_for_which_the_host_lacks_the_memory_is_unknown(noted, monkeypatch):
    monkeypatch.setattr(host_memory, "SMALL", 1000)
    monkeypatch.setattr(host_memory, "free_memory", lambda: 4000)
    (small, large, after), tape = noted(
        lambda make: [make(1.0) + 1, large := torch.ones(501, device="meta"), large.sum()]
    )
    assert tape.value_of(small).item() == 2
    for value in (after, large):
        reason = "it takes 2.0 KiB of the host's memory, of which 3.9 KiB are free"
        unknown(tape, value, reason)


def test_what_something_else_wrote_is_unknown_with_all_that_depends_on_it(noted):
    def program(make):
        a, b = make(1.0), make(2.0)
        before = a + 1
        make.tape.lose(a, "a kernel wrote it")
        return [before, a, a + b, b, torch.zeros_like(a + b)]

    (before, a, total, b, zeros), tape = noted(program)
    assert [tape.value_of(known).item() for known in (before, b, zeros)] == [2, 2, 0]
    for lost in (a, total):
        unknown(tape, lost, "a kernel wrote it")


def test_tensors_that_an_operator_fills_from_end_to_end_are_known_again(noted):
    def program(make):
        whole = make(1.0, 2.0, 3.0, 4.0)
        first, last, part = make(0.0, 0.0), make(0.0, 0.0), make(0.0, 0.0, 0.0)
        for lost in (first, last, part):
            make.tape.lose(lost, "a kernel wrote it")
        torch.split_with_sizes_copy(whole, [2, 2], out=[first, last])
        torch._foreach_copy_([part[1:]], [last])
        return first, last, part

    (first, last, part), tape = noted(program)
    assert tape.value_of(first).tolist() == [1, 2]
    assert tape.value_of(last).tolist() == [3, 4]
    unknown(tape, part, "a kernel wrote it")


def test_an_operator_that_the_host_cannot_run_makes_its_results_unknown(noted, monkeypatch):
    def refuse_products(func, args, kwargs):
        if func is torch.ops.aten.mul.Tensor:
            raise CannotCompute(f"{func}: no")
        return compute(func, args, kwargs)

    monkeypatch.setattr(replay, "compute_there", refuse_products)
    (product, total, later), tape = noted(
        lambda make: [(one := make(2.0)) * 2, one * 2 + 1, one + 3]
    )
    assert tape.value_of(later).item() == 5
    for lost in (total, product):
        unknown(tape, lost, "aten.mul.Tensor: no")


def test_notes_that_nobody_can_read_are_freed(noted):
    def program(make):
        a = make(1.0)
        for _ in range(1_500):  # more than Python may nest calls
            a = a + 1
        return [a, make(5.0) * 2]

    (chain, kept), tape = noted(program)
    note = weakref.ref(tape._storages.find(chain).writer.before[0])
    assert note() is not None
    del chain
    gc.collect()
    assert note() is None
    assert tape.value_of(kept).item() == 10


def test_a_tape_that_grows_too_long_forgets_its_oldest_values(noted):
    def program(make):
        old = make(1.0) + 1
        for _ in range(20):
            new = make(2.0) + 1
        return [old, new]

    (old, new), tape = noted(program, most=30)
    assert tape.value_of(new).item() == 3
    unknown(tape, old, "more than 30 operators ran since it was computed")


@pytest.mark.parametrize("alive", [True, False], ids=["alive", "gone"])
def test_a_moved_module_is_freed_and_its_values_stay_known(noted, alive):
    def program(make):
        layer = torch.nn.Linear(200, 200)
        with torch.no_grad():
            layer.weight.fill_(1.0)
            layer.to("meta")
            layer.weight.mul_(3)
            total = layer.weight.sum()
        return total, weakref.ref(layer.weight), layer if alive else None

    (total, weight, *_), tape = noted(program)
    gc.collect()
    assert (weight() is not None) is alive
    assert tape.value_of(total).item() == 3 * 200 * 200


def test_a_complex_number_at_the_address_of_a_seed_is_no_seed():
    seeds, memory = Seeds(), torch.zeros(1, dtype=torch.complex64)
    slot = seeds.output(memory.view(torch.int64))
    assert slot is not None
    assert seeds.find(memory.view(torch.int64)) is slot
    memory += 2j
    assert seeds.find(memory) is None
