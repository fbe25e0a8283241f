"""Record PyTorch's allocator: ``python tests/null/record_allocator.py``, with its CUDA build.

The script plays random events on a null device of 600 MiB, one process for each of the settings
below. The events, each with its change of the statistics, go to
``tests/data/cuda/<version>/allocator.json``.
"""

import json
from importlib.metadata import version

import on_null
import recordings

DATA = recordings.folder() / "allocator.json"
CAPACITY = 600 << 20
SETTINGS = (
    "",
    "max_split_size_mb:64",
    "max_split_size_mb:40,max_non_split_rounding_mb:40",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:4,32:2,>:8]",
    "large_segment_size_mb:40",
    "expandable_segments:True",
    "expandable_segments:True,large_segment_size_mb:12,max_split_size_mb:32",
    "per_process_memory_fraction:0.8,garbage_collection_threshold:0.5",
    "expandable_segments:True,per_process_memory_fraction:0.7",
    "throw_on_cudamalloc_oom:True",
)


def main():
    lines = []
    for seed, settings in enumerate(SETTINGS):
        events = ",\n".join(recordings.dense(event) for event in recorded(settings, seed))
        head = json.dumps({"settings": settings, "capacity": CAPACITY})[:-1]
        lines.append(f'{head}, "events": [\n{events}\n]}}')
    head = json.dumps({"torch": version("torch")})[:-1]
    DATA.write_text(f'{head}, "runs": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


def recorded(settings, seed):
    """Returns the events of a run; even seeds free many tensors at once, odd seeds fragment."""
    run = ("allocator_on_device", "record", seed, 200, seed % 2 == 0)
    variables = {"ATTNMEM_NULL_MEMORY": str(CAPACITY), "PYTORCH_CUDA_ALLOC_CONF": settings}
    return on_null.answer("A100-80GB", *run, **variables)


if __name__ == "__main__":
    main()
