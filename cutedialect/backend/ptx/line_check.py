"""Asks of every printed instruction whether it may stand for its target: the last check before text
leaves the compiler, under `CUTEDIALECT_VERIFY` and in `cute-opt`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms import Legality, legal

# Numbers of registers and offsets from them, which no rule looks at: lines that differ in nothing
# else are judged once.
# Their first digit comes first: a search steps from digit to digit then.
_NUMBERS = re.compile(r"\d(?:(?<=%rd\d|.%r\d|.%f\d|.%p\d|%rs\d|%fd\d)\d*|(?<=\+\d)\d*(?=\]))")


def check_lines(
    lines: Sequence[str], first_lines: Sequence[int], ops: Sequence[Operation], target: str
) -> None:
    """Raise VerifyException at the op whose line is not legal on `target`. Op number i of `ops`
    printed the lines from `first_lines[i]` on, up to those of the next one.
    """
    for number, line in enumerate(lines):
        if line[0] != "\t" or line[1] in ".{}":  # labels, directives, scopes of a call
            continue
        verdict = _judged(_NUMBERS.sub("0", line.partition(" // ")[0]), target)
        if not verdict:
            op = ops[max(bisect_right(first_lines, number) - 1, 0)]
            origin = op.attributes.get("from")
            name = origin.data if isinstance(origin, StringAttr) else op.name
            raise VerifyException(
                f"expected an instruction that {target} has for {name}, got "
                f"'{line.partition(' // ')[0].strip()}': {verdict.reason}",
                op,
            )


@lru_cache(maxsize=8192)
def _judged(statement: str, target: str) -> Legality:
    return legal(statement, target)
