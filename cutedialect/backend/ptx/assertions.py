"""What a failed assertion leaves for the host: a status word of the module, in global memory, that
holds the number of the first one that failed and its CTA. Which number is which stands in comments
at the end of the text.
"""

from __future__ import annotations

import json

from .body import Names

STATUS = "cutedialect_status"
DECLARATION = f".visible .global .align 8 .b64 {STATUS} = 0;"
# The number's bits; those above are the CTA's.
_BITS = 16


Numbers = dict[tuple[str, str], int]
"""The assertions of a module, from 1 on, by the place as `.loc` has it and the message."""


def comments(numbers: Numbers) -> list[str]:
    """One line for each assertion, which the runtime reads."""
    return [
        f"// assert {STATUS} {number} at {place}: {json.dumps(message)}"
        for (place, message), number in numbers.items()
    ]


def fail_lines(numbers: Numbers, place: str, message: str, names: Names) -> list[str]:
    """The lines that put an assertion into the status word if nothing is in it. Copies of one, in
    parts of a loop, share its number.
    """
    number = numbers.setdefault((place, message), len(numbers) + 1)
    address, value, old = (names.fresh("b64") for _ in range(3))
    x, y, z, width, height = (names.fresh("b32") for _ in range(5))
    return [
        f"\tmov.u32 {x}, %ctaid.x;",
        f"\tmov.u32 {y}, %ctaid.y;",
        f"\tmov.u32 {z}, %ctaid.z;",
        f"\tmov.u32 {width}, %nctaid.x;",
        f"\tmov.u32 {height}, %nctaid.y;",
        f"\tmad.lo.s32 {y}, {z}, {height}, {y};",
        f"\tcvt.u64.u32 {value}, {x};",
        f"\tmad.wide.u32 {value}, {y}, {width}, {value};",
        f"\tshl.b64 {value}, {value}, {_BITS};",
        f"\tor.b64 {value}, {value}, {number};",
        f"\tmov.u64 {address}, {STATUS};",
        f"\tatom.global.cas.b64 {old}, [{address}], 0, {value};",
    ]
