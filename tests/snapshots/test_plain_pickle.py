"""A pickle that names a class or a function runs no code."""

import os
import pickle

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.snapshots.plain_pickle import load_plain


class Harmful:
    """Makes a file when it is unpickled as usual."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_plain_values_are_read(tmp_path):
    value = {"a": [1, 2.5, None, True, "x", (b"y", -(2**70))]}
    tmp_path.joinpath("x").write_bytes(pickle.dumps(value))
    assert load_plain(tmp_path / "x") == value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_harmful_pickle_does_nothing(tmp_path, protocol):
    path, made = tmp_path / "x", tmp_path / "made"
    path.write_bytes(pickle.dumps([Harmful(str(made))], protocol))
    with pytest.raises(AttnMemError) as error:
        load_plain(path)
    assert str(error.value) == (
        f"cannot read {path}: it names {os.mkdir.__module__}.mkdir, and could run code; a snapshot"
        " of PyTorch has plain values only"
    )
    assert not made.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"\x80\x04}q", b"\x80\x04\x82\x01.", b"PK\x03\x04", b"\x80\x04K\x01Q."],
    ids=["empty", "cut off", "an extension", "a zip file", "a persistent id"],
)
def test_what_is_no_pickle_is_one_line(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(AttnMemError) as error:
        load_plain(path)
    assert str(error.value).startswith(f"cannot read {path}: ")
    assert "\n" not in str(error.value)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(AttnMemError) as error:
        load_plain(tmp_path / "x")
    assert str(error.value) == f"cannot read {tmp_path / 'x'}: No such file or directory"
