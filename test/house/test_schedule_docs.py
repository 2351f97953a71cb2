"""docs/schedules.md names every field of a schedule, with the values that it takes."""

import dataclasses
import re
from pathlib import Path

from cutedialect import schedule

TEXT = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text()
FIELDS = TEXT.split("\n## Fields\n")[1].split("\n## ")[0]
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", FIELDS, re.MULTILINE))


def test_every_field_has_a_row():
    fields = [field.name for field in dataclasses.fields(schedule.Schedule)]
    assert list(ROWS) == fields, "expected a row of docs/schedules.md for each field, in order"


def test_the_words_and_limits_are_those_of_the_code():
    for field, words in schedule._WORDS.items():
        assert re.findall(r"`(\w+)`", ROWS[field]) == list(words), field
    for field, most in schedule._COUNTS.items():
        assert ROWS[field] == f"1 to {most}", field


def test_the_schedules_in_the_text_are_legal():
    found = re.findall(r'schedule="([^"]+)"', TEXT) + re.findall(r'schedule<"([^"]+)">', TEXT)
    assert len(found) >= 3
    for text in found:
        assert schedule.Schedule.parse(text).text()
