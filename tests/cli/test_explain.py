"""``attnmem explain``: the page of failures, a section at a time."""

import re

import pytest

from pytest_attnmem.budgets.failure_text import Topic
from pytest_attnmem.cli import explain, main


def test_each_topic_of_a_failure_has_a_section_and_each_section_a_topic():
    assert [*explain.sections()] == [topic.value for topic in Topic]


@pytest.mark.parametrize("topic", [topic.value for topic in Topic if topic is not Topic.PARTS])
def test_a_section_has_a_failure_that_ends_with_its_topic_and_says_what_to_do(topic):
    section = explain.sections()[topic]
    _, _, after = section.partition(f"      attnmem explain {topic}\n")
    assert after.strip(), section


def test_a_section_is_printed_with_indented_blocks_and_parts_by_default(capsys):
    assert main(["explain", "retained"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "retained: A tensor that outlives its function"
    assert "    class Loop:" in lines
    assert "                  held by Loop.losses[0]" in lines
    assert not any(line.startswith("```") for line in lines)
    assert main(["explain"]) == 0
    assert capsys.readouterr().out.startswith("parts: The lines of a failure\n")


@pytest.mark.parametrize("columns", [60, 100])
def test_text_is_wrapped_and_a_table_has_no_markup(columns):
    for topic, section in explain.sections(columns).items():
        lines = section.splitlines()
        own = [line for line in lines[1:] if not re.match(r" {4}\S| {5}", line)]
        assert [line for line in own if len(line) > columns or "|" in line] == [], topic
    meaning = [line for line in explain.sections(60)["parts"].splitlines() if line[:8].isspace()]
    assert max(map(len, meaning)) <= 60
    assert meaning[0] == "        the number, its limit and the backend; `retained` is"


def test_an_unknown_topic_is_one_line(refusal):
    assert refusal("explain", "retaind") == (
        "unknown topic 'retaind'; expected one of parts, scores, mask, copy, dtype, temporaries,"
        " saved, retained, scratch, out-of-memory, not-enforced; did you mean 'retained'?"
    )


def test_each_line_of_the_table_is_in_an_example():
    sections = explain.sections()
    examples = "\n".join(text for topic, text in sections.items() if topic != "parts")
    lines = re.findall(r"^ {4}(\S.*)$", sections["parts"], re.MULTILINE)
    assert len(lines) == 7
    assert [line for line in lines if line not in examples] == []
