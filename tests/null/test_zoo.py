"""The regressions of ``tests/zoo`` on the null device, in one process."""

from zoo import table


def test_every_regression_is_caught_as_on_the_other_backends(measured_on_null):
    done = measured_on_null(table)
    expected = table.table({"null:H100": table.claimed()})
    lines = done.stdout.splitlines()
    assert done.returncode == 0, "\n".join(lines) + done.stderr
    assert [line for line in lines if line.startswith("|")] == expected.splitlines()
