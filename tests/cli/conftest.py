"""What commands print."""

import json

import pytest

from pytest_attnmem.cli import main


@pytest.fixture
def printed_json(capsys):
    """Returns the JSON that a command prints, and nothing else."""

    def printed(*arguments, code=0):
        assert main([*arguments]) == code
        out, err = capsys.readouterr()
        assert err == ""
        return json.loads(out)

    return printed
