"""Refusals of programs, judged: whether the message has a place and a remedy, and whether the
program is right under one of the listed schedules, which a default then should have taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .tile_program import Program

# Schedules that are tried for what the default refuses, the likeliest first.
SCHEDULES = (
    "roles = uniform",
    "stages = 1",
    "stages = 2",
    "roles = uniform, stages = 1",
    "roles = uniform, stages = 2",
    "roles = specialized",
    "roles = specialized, stages = 1",
    "epilogue = direct",
    "warps = (4,1)",
    "warps = (8,1)",
    "warps = (4,2)",
    "roles = uniform, warps = (4,1)",
    "roles = uniform, warps = (8,1)",
    "roles = uniform, warps = (4,2)",
    "roles = uniform, warps = (2,2)",
    "roles = uniform, warps = (4,2), stages = 1",
)
_LOCATED = re.compile(r"^\S+:\d+(:\d+)?: error\[")
# Errors of the trace: what they expect is what to write instead, and no schedule changes that.
_OF_THE_TRACE = re.compile(r"error\[CD-P\d+\]: .*\bexpected\b")
# Refusals of a call's arguments name the argument, and what it should have been.
_OF_THE_CALL = re.compile(r"^(ValueError|TypeError): \w+: expected .*, got ")


def lacks(reason: str) -> str:
    """What a refusal's message lacks, in words; empty if nothing."""
    first, *notes = reason.splitlines()
    if _OF_THE_CALL.match(first):
        return ""
    lacking: list[str] = []
    if not _LOCATED.match(first):
        lacking.append("a line")
    has_advice = ";" in first or any("note:" in note for note in notes)
    if not has_advice and not _OF_THE_TRACE.search(first):
        lacking.append("a remedy")
    return " and ".join(lacking)


def schedule_that_works(
    program: Program, reason: str, is_right: Callable[[str], bool], say: Callable[[str], None]
) -> str:
    """The first of the listed schedules under which a program that the default refuses for a
    `reason` is right; empty if there is none. `say` is told what is tried.
    """
    if program.schedule or program.must_be_refused:
        return ""
    if _OF_THE_TRACE.search(reason) or _OF_THE_CALL.match(reason):
        return ""
    for schedule in SCHEDULES:
        say(schedule)
        if is_right(schedule):
            return schedule
    return ""
