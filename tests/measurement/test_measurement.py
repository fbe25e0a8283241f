"""Measurements: a number by its metric, and equality."""

from dataclasses import fields, replace

import pytest

from pytest_attnmem.measurement.measurement import METRICS, Measurement


def test_every_metric_is_a_number_of_a_measurement(seen: Measurement) -> None:
    whole = replace(seen, peak_bytes=1, allocated_bytes=2, reserved_bytes=3, retained_bytes=4)
    assert [whole.value(metric) for metric in METRICS] == [1, 2, 3, 4]


def test_a_number_that_was_not_measured_is_none(seen: Measurement) -> None:
    assert seen.value("reserved") is None


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
