"""The contracts of ``tests/growth`` on the null device, in one process."""

from growth import table


def test_every_contract_is_judged_right_or_not_at_all(measured_on_null):
    done = measured_on_null(table)
    assert done.returncode == 0, done.stdout + done.stderr
