"""Record which tensors of the host CUDA refuses: ``python tests/null/record_hosts.py``, CUDA build.

The operators that the samples of ``opinfo_samples.py`` run on the null device are called again with
one or more of their tensors on the host: as a single element, or as they are; so are their variants
in place and with ``out=``. Other operators of several tensors are called with tensors made for
them, if they run so. The rows of this version go to ``refusals.json`` of the package.
"""

import pickle
import re
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import record_dtypes
import torch
from dtype_variants import Made, is_empty, made
from host_rows import check_for, write
from record_dtypes import operator, relatives

from pytest_attnmem.backends.simulated.host_tensors.operands import Signature, is_mixed

#: The samples of an operator, by dtype; the calls that are varied, and the seconds they may take.
COUNTS = {torch.float32: 8, torch.int64: 2, torch.bool: 1}
CALLS, SECONDS = 6, 4
#: Left out: they compile, or ask a library for a plan.
LEFT_OUT = ("triton", "cudnn", "miopen", "jiterator", "quantize", "_record_stream", "sparse")
#: A single element of another dtype.
OTHER_DTYPE = "other dtype"
#: Errors that speak of devices, and those that do so for another reason.
OF_DEVICES = re.compile("device|CPU|cuda|Tensor\\) and|should be the same", re.IGNORECASE)
OTHERWISE = re.compile(
    "Could not run|a value was read|not known|driver|CUBLAS|CUSOLVER|not implemented for|alloc_cpu"
)


def main():
    with tempfile.TemporaryDirectory() as folder:
        found = outcomes(folder)
    write({op: check_for(operator(op), seen) for op, seen in found.items()})


def outcomes(folder):
    """Returns, by operator, the texts by the tensors of a call; the folder keeps what is known."""
    if not Path(folder, "calls").exists() and not record_dtypes.started(
        __file__, "collect", folder
    ):
        raise SystemExit("the samples ended the process")
    begun = set()
    while not record_dtypes.started(__file__, "vary", folder):
        begun |= record_dtypes.begun_since(begun, folder)
    found = {}
    for path in sorted(Path(folder).glob("*.found")):
        for op, seen in pickle.loads(path.read_bytes()).items():
            for tensors, texts in seen.items():
                found.setdefault(op, {}).setdefault(tensors, set()).update(texts)
    return found


def collect(folder):
    record_dtypes.collect(folder, COUNTS)


def vary(folder):
    """Keeps the outcomes of each operator's calls in a file; those begun before are left out."""
    warnings.simplefilter("ignore")
    calls = pickle.loads(Path(folder, "calls").read_bytes())
    for name in sorted({*calls, *names()}):
        begun = Path(folder, f"{name.replace('::', '.')}.begun")
        if begun.exists() or not name.startswith("aten::") or any(w in name for w in LEFT_OUT):
            continue
        begun.touch()
        func, found = operator(name), defaultdict(lambda: defaultdict(set))
        with torch._C._AutoDispatchBelowAutograd(), torch.no_grad():
            vary_operator(func, calls.get(name) or [*invented(func)], found)
        plain = {op: dict(outcomes) for op, outcomes in found.items()}
        begun.with_suffix(".found").write_bytes(pickle.dumps(plain))


def names():
    """Yields the operators of ATen that take several tensors."""
    for schema in torch._C._jit_get_all_schemas():
        several = sum(str(argument.type).count("Tensor") for argument in schema.arguments)
        lists = any("List" in str(argument.type) for argument in schema.arguments)
        if schema.name.startswith("aten::") and (several > 1 or (several and lists)):
            overload = f".{schema.overload_name}" if schema.overload_name else ""
            if hasattr(torch.ops.aten, schema.name.removeprefix("aten::")):
                yield f"{schema.name}{overload}"


def invented(func):
    """Yields calls with tensors of one shape and dtype."""
    for shape in ((4,), (4, 4), (2, 4, 4), (2, 2, 4, 4), ()):
        for dtype in (torch.float32, torch.int64, torch.bool):
            tensor = Made(torch.empty(shape, dtype=dtype, device="cuda"))
            values = {
                "Tensor": tensor,
                "Optional[Tensor]": tensor,
                "List[Tensor]": [tensor, tensor],
                "List[Optional[Tensor]]": [tensor],
                "number": 1,
                "List[number]": [1, 1],
                "int": 1,
                "float": 1.0,
                "bool": False,
                "str": "mean",
            }
            named = {}
            for argument in func._schema.arguments:
                if argument.is_out:
                    continue
                if str(argument.type) in values:
                    named[argument.name] = values[str(argument.type)]
                elif not argument.has_default_value():
                    break
            else:
                yield named


def vary_operator(func, calls, found):
    end = time.process_time() + SECONDS
    for one in (func, *relatives(func)):
        signature, number = Signature(one), 0
        for named in calls:
            if number == CALLS or time.process_time() > end:
                break
            if any(map(is_empty, named.values())) or tried(one, *arguments(one, named, {})) != RAN:
                continue
            number += 1
            for on_host in patterns(one, named):
                args, kwargs = arguments(one, named, on_host)
                tensors = signature.placed(args, kwargs)
                if is_mixed(tensors):
                    found[one.name()][tensors].add(tried(one, args, kwargs))


def patterns(func, named):
    """Yields which tensors are on the host, by argument and place in a list, and if as they are."""
    places = [(name, place) for name, value in named.items() for place in places_of(value)]
    outputs = [(argument.name, 0) for argument in func._schema.arguments if argument.is_out]
    for place in places:
        yield from ({place: True}, {place: False}, {place: OTHER_DTYPE})
        if len(places) > 2:
            yield {other: True for other in places if other is not place}
    yield from ({place: True} for place in outputs)
    if len(places) < 5:
        for two in combinations(places, 2):
            yield dict.fromkeys(two, False)


def places_of(value):
    if isinstance(value, Made):
        return [0]
    items = value if _is_list(value) else []
    return [at for at, item in enumerate(items) if isinstance(item, Made)]


def _is_list(value):
    return type(value) is list


def arguments(func, named, on_host):
    """Returns the arguments of a call; an output has the dtype of the first tensor, and no size."""
    args, kwargs = [], {}
    given = {name: placed(name, value, on_host) for name, value in named.items()}
    first = next((v for v in named.values() if places_of(v)), None)
    first = first[places_of(first)[0]] if _is_list(first) else first
    for number, argument in enumerate(func._schema.arguments):
        if argument.is_out:
            device = "cpu" if (argument.name, 0) in on_host else "cuda"
            out = torch.empty(0, dtype=first.dtype if first else None, device=device)
            kwargs[argument.name] = [out] if "List" in str(argument.type) else out
        elif argument.name in given:
            if argument.kwarg_only or len(args) < number:
                kwargs[argument.name] = given[argument.name]
            else:
                args.append(given[argument.name])
    return tuple(args), kwargs


def placed(name, value, on_host):
    if not _is_list(value):
        return made(value) if (name, 0) not in on_host else moved(value, on_host[name, 0])
    return [
        moved(item, on_host[name, at]) if (name, at) in on_host else made(item)
        for at, item in enumerate(value)
    ]


def moved(tensor, how):
    if how is True:
        return torch.empty_strided(tensor.shape, tensor.stride, dtype=tensor.dtype)
    other = torch.int64 if tensor.dtype.is_floating_point else torch.float32
    return torch.empty((), dtype=other if how == OTHER_DTYPE else tensor.dtype)


#: The outcomes of a call: it ran, it failed for another reason; or the text of its error, and if
#: it had allocated something before.
RAN, FAILED = ("", False), (None, False)


def tried(func, args, kwargs):
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    try:
        func(*args, **kwargs)
    except Exception as error:
        text = str(error).partition("\nException raised")[0].strip()
        if not OF_DEVICES.search(text) or OTHERWISE.search(text):
            return FAILED
        return text, torch.cuda.memory_stats()["requested_bytes.all.peak"] > before
    return RAN


if __name__ == "__main__":
    main()
