"""Attention problems drawn at random, and the table of what is chosen for them, which
`python -m benchmarks.attention_choices` writes anew. The diff is the review.
"""

from __future__ import annotations

import random
from dataclasses import fields
from itertools import islice
from pathlib import Path

from cutedialect.choosing.attention_parameters import open_parameters
from cutedialect.choosing.attention_problem import AttentionProblem
from cutedialect.choosing.attention_space import ATTENTION
from cutedialect.choosing.need import NONE
from cutedialect.schedule import Schedule

TABLE = Path(__file__).parents[1] / "test" / "choosing" / "attention_choices.txt"
# The first ones, and others which the rules that decide for few need.
NUMBERS = (
    *range(300),
    311, 315, 316, 328, 336, 350, 351, 372, 389, 402, 416, 527, 559, 572, 590, 608, 634, 638,
    658, 664, 668, 708, 711, 732, 736, 747, 750, 787, 812, 840, 856, 858, 863, 912, 917, 932,
    953, 960, 1057, 1071, 1119, 1238, 1300, 1302, 1320, 1369, 1378, 1449, 1484, 1555, 1560,
    1665, 1747, 1791, 1919, 2119, 2338, 2422, 2435, 2618, 2622, 2841, 2849, 3095, 3404, 3536,
    3765, 3788, 3903, 4019, 4353, 4564, 4570, 4935, 5113, 6215, 6223, 6520,
)  # fmt: skip
_ARCHS = ("sm_90a",) * 6 + ("sm_100a", "sm_100a", "sm_80", "sm_120a")
_DEPTHS = (16, 32, 64, 64, 80, 96, 112, 128, 128, 160, 192, 256, 256)
_ROWS = (1, 16, 40, 64, 80, 128, 191, 192, 256, 300, 512, 1024, 2047, 2048, 4096, 16384)
_KEYS = (16, 33, 100, 128, 200, 320, 384, 512, 1024, 2047, 2048, 4096, 65536)
_SEQUENCES = (1, 8, 16, 34, 50, 64, 106, 128, 180, 256, 300, 512, 2000)
_SEES = (25, 129, 512, 1023, 1025, 4097, 8193)
_GIVEN = (
    "tile = (128,64)", "tile = (192,96)", "maxima = exact", "maxima = lazy", "unroll = 1",
    "roles = uniform", "roles = split", "registers = (40,232)", "ctas = 1", "cluster = (2,1)",
    "overlap = turns", "warps = (4,1)", "loads = threads", "polynomials = (8,3)", "stages = 2",
)  # fmt: skip


def drawn(number: int) -> tuple[AttentionProblem, Schedule | None]:
    """The problem of a number, and what a call gives of its schedule."""
    rng = random.Random(f"attention {number}")

    def chance(part: float) -> bool:
        return rng.random() < part

    bits_q = rng.choice((16, 16, 16, 8))
    bits = 8 if bits_q == 8 or chance(0.08) else 16
    depth = rng.choice(_DEPTHS)
    dims = depth, depth if chance(0.8) else rng.choice((32, 64, 128, 256))
    if bits == 16 and chance(0.05):
        dims = rng.choice(((576, 512), (320, 256), (320, 384)))
    rows = None if chance(0.05) else rng.choice(_ROWS)
    keys = rows if chance(0.6) else None if chance(0.05) else rng.choice(_KEYS)
    is_packed = chance(0.12)
    is_paged = not is_packed and chance(0.12)
    is_sliced = is_packed or is_paged or chance(0.1)
    has_window, returns_lse = chance(0.2), chance(0.2)
    is_shifted = chance(0.06)
    problem = AttentionProblem(
        dims,
        rows=rows,
        keys=None if is_packed else keys,
        bits=bits,
        bits_q=bits_q,
        loads_boxes=chance(0.9) and not is_shifted,
        is_uneven=has_window or is_sliced or chance(0.5),
        keeps_more=has_window or is_sliced or returns_lse,
        is_paged=is_paged,
        is_sliced=is_sliced,
        is_packed=is_packed,
        group=rng.choice((1, 1, 2, 4)),
        has_window=has_window,
        stores_boxes=chance(0.9),
        bits_out=rng.choice((16, 16, 16, 32)),
        is_capped=chance(0.12),
        is_f16=bits_q == 16 and chance(0.4),
        returns_lse=returns_lse,
        is_latent=dims[0] > 512,
        sequences=None if chance(0.1) else rng.choice(_SEQUENCES),
        processors=rng.choice((132, 132, 64)),
        sees=rng.choice(_SEES) if has_window and chance(0.9) else None,
        is_padded=chance(0.1),
        is_shifted=is_shifted,
        arch=rng.choice(_ARCHS),
    )
    return problem, Schedule.parse(rng.choice(_GIVEN)) if chance(0.15) else None


def line(number: int) -> str:
    """What is chosen for a problem, and what follows where that lacks registers."""
    problem, given = drawn(number)
    first, *others = islice(ATTENTION.ranked(problem, given, NONE), 3)
    parameters = open_parameters(problem, first)
    words = " ".join(f"{name}={value}" for name, value in parameters.items() if name != "tile")
    then = "; ".join(changes(first, schedule) for schedule in others)
    asked = f" [{given.text()}]" if given is not None else ""
    return f"{number}{asked}: {first.text()} | {words.replace(', ', ',')} | {then}"


def changes(first: Schedule, schedule: Schedule) -> str:
    """The fields in which a schedule differs from another one."""
    return ", ".join(
        f"{field.name} {getattr(schedule, field.name)}"
        for field in fields(schedule)
        if getattr(schedule, field.name) != getattr(first, field.name)
    )


def table() -> str:
    return "".join(f"{line(number)}\n" for number in NUMBERS)


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
