"""Record which dtypes CUDA's kernels refuse: ``python tests/null/record_dtypes.py``, CUDA build.

The operators that the samples of ``opinfo_samples.py`` run on the null device, forward and
backward, are called again with every dtype, and in pairs of dtypes; so are their variants in place
and with ``out=``. A kernel says ``"host_softmax" not implemented for 'Int'`` on the host, before it
is launched. A dtype is refused if every call that it decides failed, and at least one so. The rows
of this version go to ``refusals.json`` of the package, where those of other versions stay.

With an argument, ``_foreach``, the operators whose names begin so are recorded, and the rows of
others stay too.
"""

import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from dtype_rows import FAILED, LIBRARY, RAN, refused, write
from dtype_variants import Made, dtypes_in, is_empty, made, variants

from pytest_attnmem.backends.simulated.dtypes.operands import Signature
from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile

HERE = Path(__file__).parent
DEVICE = "H100"
#: Seconds of one operator; the most calls of it that are varied, and those varied thoroughly.
SECONDS, CALLS, THOROUGH = 2, 10, 2
COUNTS = {torch.float32: 10, torch.int64: 5, torch.complex64: 4, torch.bool: 3, torch.bfloat16: 2}
KERNEL = re.compile(r'"([^"]+)" not implemented for \'(\w+)\'')
#: Left out: they ask for the device's capability, or compile for it.
#: And the simulation alone calls ``cumprod`` for the gradient of ``prod``.
LEFT_OUT = (
    "::_scaled",
    "attention",
    "triton",
    "cudnn",
    "jiterator",
    "_int_mm",
    "_weight_int",
    "cumprod",
)
#: Errors of libraries, which the null device does not have.
LIBRARIES = re.compile("cuda error|cusolver|cublas|cudnn|cufft|nvrtc|magma|driver", re.IGNORECASE)


def main(beginning=""):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "beginning").write_text(beginning)
        if not started(__file__, "collect", folder):
            raise SystemExit("the samples ended the process")
        begun = set()
        while not started(__file__, "vary", folder):
            begun |= begun_since(begun, folder)
        found = {}
        for path in Path(folder).glob("*.found"):
            found.update(pickle.loads(path.read_bytes()))
    write({op: refused(outcomes) for op, outcomes in found.items()}, f"aten.{beginning}")


def started(file, what, folder):
    """Runs a step of a script in a process on the null device; False if that ended early."""
    code = f"import {Path(file).stem} as r, os, sys; r.{what}(sys.argv[1]); os._exit(0)"
    paths = (HERE.parent, HERE.parents[1], HERE, *sys.path[1:])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, folder],
        env={
            **os.environ,
            **environment(find_profile(DEVICE)),
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
        },
    )
    return done.returncode == 0


def begun_since(begun, folder):
    """Returns the operators that a process began, in the last of which it ended."""
    new = {path.stem for path in Path(folder).glob("*.begun")} - begun
    if not new:
        raise SystemExit("the process ends before it begins an operator")
    return new


def collect(folder, counts=MappingProxyType(COUNTS)):
    """Keeps the calls of operators that the samples make, one of each kind."""
    import opinfo_samples
    from torch.utils._python_dispatch import TorchDispatchMode

    from pytest_attnmem.backends.null import program
    from pytest_attnmem.measurement.values_limit import VALUES_LIMIT, parse_values_limit

    program.prepare(parse_values_limit(VALUES_LIMIT))
    opinfo_samples.COUNTS, opinfo_samples.CUDNN = dict(counts), ("cudnn", "miopen")
    calls, beginning = {}, Path(folder, "beginning").read_text()

    class Collecting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            names = [argument.name for argument in func._schema.arguments]
            named = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
            kept = {name: keep(value) for name, value in named.items()}
            if None not in kept.values():
                kind = tuple((name, kind_of(value)) for name, (value,) in kept.items())
                call = {name: value for name, (value,) in kept.items()}
                calls.setdefault(func.name(), {}).setdefault(kind, call)
            return out

    for name, op in opinfo_samples.operators().items():
        if "triton" in name or not name.startswith(beginning):
            continue
        for sample in opinfo_samples.samples(name, op):
            try:
                input, args, kwargs = sample.on("cuda")
                with Collecting():
                    opinfo_samples.backward(sample.op(input, *args, **kwargs))
            except Exception as error:
                print(sample.name, str(error).partition("\n")[0][:90], file=sys.stderr)
    kept = {name: [*of.values()][: 2 * CALLS] for name, of in calls.items()}
    Path(folder, "calls").write_bytes(pickle.dumps(kept))


def keep(value):
    """Returns a value as it can be made again, in a tuple; None if it cannot."""
    if isinstance(value, torch.Tensor):
        plain = value.layout is torch.strided and not value.is_quantized
        return (Made(value),) if plain and type(value) is torch.Tensor else None
    if isinstance(value, (list, tuple)):
        kept = [keep(item) for item in value]
        return None if None in kept else ([item for (item,) in kept],)
    return None if isinstance(value, torch.Generator) else (value,)


def kind_of(value):
    if isinstance(value, Made):
        return (len(value.shape) > 0, value.dtype, value.device, is_empty(value))
    if type(value) is list:
        return tuple(dict.fromkeys(map(kind_of, value)))
    return value if isinstance(value, (bool, str, torch.dtype)) else type(value)


def vary(folder):
    """Keeps the outcomes of each operator's calls in a file; those begun before are left out."""
    warnings.simplefilter("ignore")
    beginning = Path(folder, "beginning").read_text()
    for name, calls in sorted(pickle.loads(Path(folder, "calls").read_bytes()).items()):
        if not name.startswith(f"aten::{beginning}"):
            continue
        begun = Path(folder, f"{name.replace('::', '.')}.begun")
        func = operator(name)
        skipped = torch.Tag.inplace_view in func.tags or func.is_view
        if begun.exists() or skipped or any(word in name for word in LEFT_OUT):
            continue
        begun.touch()
        found = defaultdict(lambda: defaultdict(set))
        with torch._C._AutoDispatchBelowAutograd(), torch.no_grad():
            vary_operator(func, calls, found)
        plain = {op: dict(outcomes) for op, outcomes in found.items()}
        begun.with_suffix(".found").write_bytes(pickle.dumps(plain))


def vary_operator(func, calls, found):
    related = [(one, Signature(one)) for one in (func, *relatives(func))]
    end, number = time.process_time() + SECONDS, 0
    for named in calls:
        if any(map(is_empty, named.values())) or outcome(func, named, {}, {}) != RAN:
            continue
        if number == CALLS:
            return
        for dtypes, values in variants(func, named, number < THOROUGH):
            if number and time.process_time() > end:
                return
            for one, signature in related:
                args, kwargs = arguments(one, named, dtypes, values)
                given = signature.operands(args, kwargs)
                found[str(one)][given].add(tried(one, args, kwargs))
        number += 1


def outcome(func, named, dtypes, values):
    return tried(func, *arguments(func, named, dtypes, values))


def arguments(func, named, dtypes, values):
    """Returns the arguments of a variant; an output has the first tensor's dtype, and no size."""
    args, kwargs = [], {}
    given = {name: made(value, dtypes.get(name)) for name, value in named.items()} | values
    first = next((dtypes.get(n, dtypes_in(v)[0]) for n, v in named.items() if dtypes_in(v)), None)
    for argument in func._schema.arguments:
        if argument.is_out:
            kwargs[argument.name] = torch.empty(0, dtype=values.get("dtype", first), device="cuda")
        elif argument.name in given:
            if argument.kwarg_only or len(args) < func._schema.arguments.index(argument):
                kwargs[argument.name] = given[argument.name]
            else:
                args.append(given[argument.name])
    return tuple(args), kwargs


def tried(func, args, kwargs):
    """Returns ``RAN``, ``LIBRARY``, ``FAILED``, or the kernel and the dtype that it refuses."""
    try:
        func(*args, **kwargs)
    except NotImplementedError as error:
        if refusal := KERNEL.fullmatch(str(error).partition("\n")[0]):
            return refusal.groups()
        return FAILED
    except torch.OutOfMemoryError:
        return LIBRARY
    except Exception as error:
        return LIBRARY if LIBRARIES.search(str(error)) else FAILED
    return RAN


def operator(name):
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload or "default")


def relatives(func):
    """Returns the variants of an operator in place and with ``out=``."""
    packet, _, _ = func._schema.name.removeprefix("aten::").partition(".")
    wanted = [(one.name, str(one.type)) for one in func._schema.arguments]
    if func.namespace != "aten" or func._schema.is_mutable:
        return
    for name in (f"{packet}_", packet):
        found = getattr(torch.ops.aten, name, None)
        for overload in found.overloads() if found else ():
            one = getattr(found, overload)
            taken = [(a.name, str(a.type)) for a in one._schema.arguments if not a.is_out]
            if taken == wanted and one._schema.is_mutable:
                yield one


if __name__ == "__main__":
    main(*sys.argv[1:])
