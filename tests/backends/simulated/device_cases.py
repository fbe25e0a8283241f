"""What the tests of the device ask of it, in a process that has it: PyTorch takes none away again.

``python device_cases.py`` runs each ``case_…``, and prints what each returns, or the error.
"""

import contextlib
import gc
import json
import warnings

import torch

from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.backends.simulated.session.process import process_device
from pytest_attnmem.errors import CannotSimulate, ProgramRefused


class Device:
    """The device of this process, and what its windows count."""

    type = "cuda"

    def __init__(self):
        self.maker = process_device().maker
        self.backend = open_backend("simulated:A100-80GB")
        self.backend.prime()
        self.backend.name_device()

    def made(self, *shape, **options):
        return torch.ones(*shape, device=self.type, **options)

    @property
    def bytes(self):
        return self.backend.simulation.device.statistics.requested.current

    def peak(self, work):
        gauge = self.backend.gauge()
        gauge.start()
        work()
        seen = gauge.stop()
        return [seen.requested.peak, seen.problem]


def case_a_tensor_is_plain(device):
    x = device.made(2, 3)
    storage = x.untyped_storage()
    return [
        type(x).__name__ == "Tensor",
        str(x.device) == f"{device.type}:0",
        storage.nbytes(),
        x.data_ptr() == storage.data_ptr() != 0,
        x.requires_grad_().is_leaf,
    ]


def case_each_dtype_is_made(device):
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    wrong = []
    for dtype in sorted(dtypes, key=str):
        if any(word in str(dtype) for word in ("int1", "int2", "int3", "int5", "int6", "int7")):
            continue  # those of less than a byte, and those that are 16, 32 and 64 wide
        if not str(dtype).startswith(("torch.q", "torch.bits", "torch.uint4", "torch.int4")):
            try:
                made = torch.empty(3, dtype=dtype, device=device.type)
            except CannotSimulate as error:
                wrong.append(str(error))
                continue
            if made.dtype != dtype or made.untyped_storage().nbytes() != 3 * dtype.itemsize:
                wrong.append(str(dtype))
    return wrong


def case_memory_ends_with_the_last_view(device):
    before = device.bytes
    x = device.made(10, 10)
    row = x[3]
    held = device.bytes - before
    del x
    still = device.bytes - before
    del row
    return [held, still, device.bytes - before]


def case_an_error_frees_what_it_leaves(device):
    before = device.bytes
    with contextlib.suppress(RuntimeError):
        device.made(4, 4) @ device.made(5, 5)
    gc.collect()
    return device.bytes - before


def case_gradients_are_added_in_place(device):
    x = device.made(256, 256).requires_grad_()

    def work():
        h = x * 1
        (h * 2 + h * 3 + h.exp()).sum().backward()

    work()  # x.grad is there from now on
    return device.peak(work)


def case_calls_that_are_known_need_as_much(device):
    def work():
        q, k, v = (device.made(2, 4, 64, 32).requires_grad_() for _ in range(3))
        ((q @ k.mT).softmax(-1) @ v).sum().backward()

    return [device.peak(work) for _ in range(3)]


def case_a_size_that_values_tell_is_not_remembered(device):
    x = torch.arange(6, device=device.type)
    return [x[x > limit].shape[0] for limit in (1, 4, 1)]


def case_an_unknown_operator_is_told_each_time(device):
    x = device.made(2, 9, 9)
    return [device.peak(lambda: torch.linalg.matrix_exp(x))[1] for _ in range(2)]


def case_a_setting_that_changes_is_heard(device):
    image, weight = device.made(1, 3, 8, 8), device.made(4, 3, 3, 3)
    seen = []
    for benchmark in (False, True, False):
        with torch.backends.cudnn.flags(enabled=True, benchmark=benchmark):
            seen.append(device.peak(lambda: torch.conv2d(image, weight))[1])
    return [seen[0] == seen[2], seen[0] == seen[1]]


def case_values_are_read(device):
    x = torch.arange(6.0, device=device.type).reshape(2, 3)
    x[0].mul_(2)
    y = x.t() @ x
    return [y.sum().item(), y.cpu().tolist(), bool((y == y.mT).all()), torch.equal(x, x + 0)]


def case_random_numbers_follow_the_seed(device):
    rows = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        rows.append(torch.randn(2, device=device.type).tolist())
    return [rows[0] == rows[1], rows[0] == rows[2]]


def case_transforms_and_scripts_run_in_cpp(device):
    x = device.made(8, 3)
    each = torch.func.vmap(torch.func.grad(lambda row: (row**2).sum()))(x)
    tangent = torch.func.jvp(torch.sin, (x,), (x,))[1]
    script = torch.jit.script(lambda_of_module)
    return [each.sum().item(), list(tangent.shape), script(x).sum().item()]


def lambda_of_module(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def case_a_storage_is_resized(device):
    x = device.made(100)
    before = device.bytes
    storage = x.untyped_storage()
    storage.resize_(0)
    emptied = before - device.bytes
    storage.resize_(400)
    return [emptied, before - device.bytes, storage.nbytes()]


def case_a_target_grows(device):
    out = torch.empty(0, device=device.type)
    torch.add(device.made(5), 1, out=out)
    return [list(out.shape), out.tolist()]


def case_a_model_is_copied_and_saved(device):
    import copy
    import io

    model = torch.nn.Linear(3, 3).to(device.type)
    file = io.BytesIO()
    torch.save(copy.deepcopy(model).state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, map_location=device.type)
    return [str(loaded["weight"].device), torch.equal(loaded["weight"], model.weight)]


def case_a_program_that_names_no_device_is_on_this_one(device):
    return str(torch.ones(3).device)


def case_it_runs_out_of_memory(device):
    gauge = device.backend.gauge()
    gauge.start()
    try:
        torch.empty(1 << 40, device=device.type)
    except torch.OutOfMemoryError as error:
        return [str(error)[:56], device.backend.out_of_memory(error)]
    finally:
        gauge.stop()


def case_an_operator_without_shapes_is_refused(device):
    device.made(3).to_sparse()


def case_a_nested_tensor_is_refused(device):
    torch.nested.as_nested_tensor([device.made(2, 3), device.made(4, 3)])


def case_the_compiler_knows_the_functions_of_devices(device):
    import torch._dynamo.variables.torch as variables

    variables.TorchInGraphFunctionVariable._get_handlers()
    return True


def case_two_devices_do_not_mix(device):
    device.made(3, 3) @ torch.ones(3, 3)


def main():
    warnings.simplefilter("ignore")
    device, found = Device(), {}
    try:
        torch.ones(3, device=device.type)
    except AssertionError as error:
        found["outside"] = str(error)
    for name, case in globals().copy().items():
        if name.startswith("case_"):
            device.backend.forget()
            if "names_no_device" not in name:
                device.backend.name_device()
            with device.backend.world():
                try:
                    found[name] = case(device)
                except (ProgramRefused, Exception) as error:
                    found[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
