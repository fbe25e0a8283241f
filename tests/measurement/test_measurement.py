"""Measurements: a number by its metric, and equality."""

from dataclasses import fields, replace

import pytest

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.measurement.measurement import METRICS, Measurement


def test_every_metric_is_a_number_of_a_measurement(seen: Measurement) -> None:
    whole = replace(seen, peak_bytes=1, allocated_bytes=2, reserved_bytes=3, retained_bytes=4)
    assert [whole.value(metric) for metric in METRICS] == [1, 2, 3, 4]
    assert seen.value("reserved") is None  # it was not measured


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"out_of_memory": "tried to allocate 1 B"}, "out of memory on cpu: tried to allocate 1 B"),
        ({"unmeasured": "a thread allocated"}, "retained is not known: a thread allocated"),
        ({"retained_bytes": None}, "retained is not measured on cpu"),
        (
            {"imported": "torch.fx", "pinned_bytes": 1},
            "retained is not known: the first use of torch.fx was in it, and imports keep tensors"
            " alive; measure a second run: warmup=1",
        ),
    ],
)
def test_a_number_that_is_not_known_is_an_error(
    seen: Measurement, changes: dict[str, object], message: str
) -> None:
    measured = replace(seen, retained_bytes=4)
    assert measured.known("retained") == 4
    with pytest.raises(BudgetError) as error:
        replace(measured, **changes).known("retained")  # type: ignore[arg-type]
    assert str(error.value) == message


#: The fields with a result or evidence, which are not measured bytes.
BESIDE = ("result", "trace", "timeline", "snapshots", "tensors")


@pytest.mark.parametrize("name", BESIDE)
def test_some_fields_do_not_count_for_equality(seen: Measurement, name: str) -> None:
    other = replace(seen, **{name: print})  # type: ignore[arg-type]
    assert other == seen
    assert repr(other) == repr(seen)


def test_every_other_field_counts(seen: Measurement) -> None:
    for field in fields(Measurement):
        if field.name not in BESIDE:
            assert replace(seen, **{field.name: "other"}) != seen  # type: ignore[arg-type]


def test_it_is_printed_in_one_line(seen: Measurement) -> None:
    whole = replace(seen, peak_bytes=65 * 2**20, allocated_bytes=None, retained_bytes=0)
    assert str(whole) == "peak 65.0 MiB, retained 0 B on cpu"
    assert str(replace(whole, unmeasured="a thread allocated")) == (
        "peak 65.0 MiB, retained 0 B on cpu (a thread allocated)"
    )
    nothing = replace(whole, peak_bytes=None, retained_bytes=None, backend="null:H100")
    assert str(nothing) == "not measured on null:H100"
