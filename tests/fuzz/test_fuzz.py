"""Bad input ends in a result or in an error of one line; ``make fuzz`` tries more of it."""

import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from targets import FILES, NASTY, TEXT, TEXTS, as_json, changed

from pytest_attnmem.errors import AttnMemError

#: Of each target; ``make fuzz`` sets many more.
EXAMPLES = int(os.environ.get("ATTNMEM_FUZZ_EXAMPLES", "15"))
fuzzed = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[*HealthCheck], database=None
)


def name(target):
    return target.name


def read(target, given):
    """Reads it; an error is one line of ours, and nothing else is printed."""
    errors = io.StringIO()
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
    refusal = ""
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            target.read(given)
    except AttnMemError as error:
        refusal = str(error)
    assert "\n" not in refusal.strip()
    assert len(refusal) < 2_000
    assert "Traceback" not in errors.getvalue()


def read_file(target, content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "given.json")
        path.write_bytes(content)
        read(target, path)


@pytest.mark.parametrize("target", TEXTS, ids=name)
def test_any_text_is_read_or_refused_in_one_line(target):
    @fuzzed
    @given(TEXT)
    def try_one(text):
        read(target, text)

    try_one()
    for text in NASTY:
        read(target, text)


@pytest.mark.parametrize("target", FILES, ids=name)
def test_any_file_is_read_or_refused_in_one_line(target):
    @fuzzed
    @given(st.one_of(changed(target.valid).map(as_json), st.binary(max_size=40)))
    def try_one(content):
        read_file(target, content)

    try_one()
    for content in (b"[" * 10_000, b'{"a":' * 5_000, as_json(target.valid)[:-3], b"9" * 10_000):
        read_file(target, content)
    read_file(target, as_json(target.valid))
