"""Record attention: ``python tests/null/record_attention.py``, with the CUDA build of torch.

Each null device has a process of its own. PyTorch's backend for each of the questions in
``tests/backends/simulated/attention/cases.py`` goes to ``attention-choices.json``, and for each of
``random_questions.py`` beside it to ``attention-random.json``. The memory
events of each operator go to ``attention-operators.json``, those of
``scaled_dot_product_attention`` as a whole to ``attention-calls.json``, and the peaks of cuDNN's
attention to ``attention-cudnn.json``. All are in ``tests/data/cuda/<version>/``.

An event is ``+bytes`` for a requested allocation, and ``-n`` for the free of the n-th allocation.
"""

from dataclasses import replace

import on_null

from pytest_attnmem.profiles import PROFILES, find_profile

CASES = on_null.TESTS / "backends" / "simulated" / "attention"
#: A device of each compute capability; the last capability has no profile of its own.
DECIDING = {
    **{device.compute_capability: device for device in PROFILES.values()},
    (12, 0): replace(find_profile("RTX 4090"), compute_capability=(12, 0)),
}
ALLOCATING = ("GTX 1080", "V100", "T4", "A100-80GB", "A10G", "H100", "B200")
PLANNED = ("H100", "B200")  # the devices that choose cuDNN
DRAWN = ("A100-80GB", "A10G", "L4", "H100", "B200", "RTX 5090")


def main():
    chosen = {"{}.{}".format(*key): on(device, "choices") for key, device in DECIDING.items()}
    on_null.write("attention-choices", "the backend taken for each of cases.questions()", chosen)
    drawn = {capability(device): on(find_profile(device), "random_choices") for device in DRAWN}
    on_null.write("attention-random", "the backend taken for each of random_questions", drawn)
    for what in ("operators", "calls"):
        events = {device: on(find_profile(device), what) for device in ALLOCATING}
        on_null.write(
            f"attention-{what}", "what each call of attention allocates and frees", events
        )
    peaks = {device: on(find_profile(device), "cudnn") for device in PLANNED}
    on_null.write("attention-cudnn", "the peaks of each of cudnn_cases.calls()", peaks)


def on(device, what):
    """Returns the answer of ``attention_on_device`` on that device."""
    return on_null.answer(device, "attention_on_device", what, folders=[CASES])


def capability(device):
    return "{}.{}".format(*find_profile(device).compute_capability)


if __name__ == "__main__":
    main()
