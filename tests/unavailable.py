"""The one line that tells why something cannot be had here."""

import pytest

from pytest_attnmem.errors import BackendUnavailable


def refusal(action, *arguments):
    """Returns the text of the ``BackendUnavailable`` that a call raises."""
    with pytest.raises(BackendUnavailable) as error:
        action(*arguments)
    text = str(error.value)
    assert "\n" not in text
    return text
