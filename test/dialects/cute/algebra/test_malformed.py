"""Mutated text of the layout algebra: an answer soon, and every rejection is one located error."""

import io
import random
import re
from pathlib import Path

import pytest

from cutedialect.tools.cute_opt import CuteOpt

FOLDER = Path(__file__).parent
PARTS = [
    part
    for path in sorted(FOLDER.glob("*.mlir"))
    for part in re.split(r"^// -----$", path.read_text(), flags=re.MULTILINE)
    if "= cute." in part
]
TOKENS = [
    "0",
    "1",
    "-1",
    "?",
    "?{i64}",
    "?{div=8}",
    "_",
    "()",
    "(1)",
    "(2,3)",
    "((2,3),4)",
    "1@0",
    "1@1@0",
    "4:1",
    "S<3,4,3>",
    "99999999999",
]
KINDS = ["shape", "stride", "coord", "int_tuple", "layout", "tile", "composed_layout", "swizzle"]
PIPELINE = "cute-fold-static,cute-expand-ops"
SEEDS, INPUTS_PER_SEED = 8, 40
LOCATED = re.compile(r"^<stdin>:\d+:\d+: error: \S", re.MULTILINE)


def mutated(draw):
    text = draw.choice(PARTS)
    for _ in range(draw.randint(1, 3)):
        quoted = [match.group() for match in re.finditer(r'"[^"]*"', text)]
        kind = draw.random()
        if kind < 0.6 and quoted:
            one = draw.choice(quoted)
            leaves = list(re.finditer(r"[0-9?_]+", one))
            if not leaves:
                continue
            leaf = draw.choice(leaves)
            text = text.replace(one, one[: leaf.start()] + draw.choice(TOKENS) + one[leaf.end() :])
        elif kind < 0.8:
            text = text.replace(f"!cute.{draw.choice(KINDS)}<", f"!cute.{draw.choice(KINDS)}<")
        elif kind < 0.9:
            at = draw.randrange(len(text))
            text = text[:at] + text[at + draw.randint(1, 4) :]
        else:
            text = re.sub(r"<\[?\d[^>]*>", draw.choice(["<[5]>", "<[-1]>", "<2, 1>", "<9>"]), text)
    return text


@pytest.mark.parametrize("seed", range(SEEDS))
def test_mutated_text_is_answered(seed):
    draw = random.Random(seed)
    rejected = 0
    for _ in range(INPUTS_PER_SEED):
        text = mutated(draw)
        out, err = io.StringIO(), io.StringIO()
        code = CuteOpt(["-p", PIPELINE], io.StringIO(text), out, err).run()
        message = err.getvalue()
        assert "internal error" not in message, f"{message}\n{text}"
        assert not re.search(r"malformed text: \w+(Error|Exception)\b", message), (
            f"{message}\n{text}"
        )
        assert code == 0 or len(LOCATED.findall(message)) == 1, f"{message}\n{text}"
        rejected += code != 0
    assert rejected > 0
