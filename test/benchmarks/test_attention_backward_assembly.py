"""`python -m benchmarks.attention_backward_assembly`: what the assembler says of drawn problems."""

from __future__ import annotations

import re
from dataclasses import replace

from benchmarks.attention_backward_assembly import TARGETS, draw, every, found, main
from benchmarks.random_gemms import releases
from cutedialect.backend.runtime import ptxas


def test_a_seed_and_a_number_say_which_problem():
    problems = [draw(1, number) for number in range(40)]
    assert problems == [draw(1, number) for number in range(40)]
    assert len({each.text for each in problems}) == 40
    assert {"packed", "padded", "shared"} <= {each.kind for each in problems}


def test_every_form_is_listed_once_for_each_head_dimension_and_type(capsys):
    problems = every()
    assert len({each.text for each in problems}) == len(problems)
    depths = {each.q[-1] for each in problems if each.width == each.q[-1]}
    assert {32, 64, 128, 256} <= depths
    for dtype in ("bf16", "f16"):
        forms = {
            depth: {
                (each.kind, *each.options)
                for each in problems
                if each.q[-1] == depth and each.dtype == dtype
            }
            for depth in depths
        }
        assert len({frozenset(each) for each in forms.values()}) == 1
        assert {("plain",), ("plain", "window"), ("packed", "causal")} <= forms[128]
    assert any((each.q[-1], each.width) == (192, 128) for each in problems)
    causal = problems.index(
        next(each for each in problems if each.q[-1] == 64 and each.options == {"causal": True})
    )
    assert main(["--every", "--only", f"{causal}", "--target", TARGETS[0], "--jobs", "1"]) == 0
    assert "1 kernels, 0 with a loss" in capsys.readouterr().out


def test_a_row_is_counted_for_each_assembler(capsys):
    assert main(["--count", "1", "--seed", "3", "--target", TARGETS[0], "--jobs", "1"]) == 0
    told = re.findall(r"ptxas [\d.]+: (\d) kernels, (\d) with a loss", capsys.readouterr().out)
    assert told == [("1", "0")] * len(releases())


def test_what_no_pass_takes_counts():
    problem = draw(3, 0)
    broken = replace(problem, options={"schedule": "tile = (24,64)"})
    (why,) = found(broken, TARGETS[0], [ptxas.find()])
    assert "expected" in why
