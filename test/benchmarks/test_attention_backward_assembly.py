"""`python -m benchmarks.attention_backward_assembly`: what the assembler says of drawn problems."""

from __future__ import annotations

import re
from dataclasses import replace

from benchmarks.attention_backward_assembly import TARGETS, draw, found, main
from benchmarks.random_gemms import releases
from cutedialect.backend.runtime import ptxas


def test_a_seed_and_a_number_say_which_problem():
    problems = [draw(1, number) for number in range(40)]
    assert problems == [draw(1, number) for number in range(40)]
    assert len({each.text for each in problems}) == 40
    assert {"packed", "padded", "shared"} <= {each.kind for each in problems}


def test_a_row_is_counted_for_each_assembler(capsys):
    assert main(["--count", "1", "--seed", "3", "--target", TARGETS[0], "--jobs", "1"]) == 0
    told = re.findall(r"ptxas [\d.]+: (\d) kernels, (\d) with a loss", capsys.readouterr().out)
    assert told == [("1", "0")] * len(releases())


def test_what_no_pass_takes_counts():
    problem = draw(3, 0)
    broken = replace(problem, options={"schedule": "tile = (24,64)"})
    (why,) = found(broken, TARGETS[0], [ptxas.find()])
    assert "expected" in why
