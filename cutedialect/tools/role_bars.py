"""What the model says of each role of a kernel, as a picture: for how much of the time its units
are busy, and what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from cutedialect.model import Kernel

_LEFT, _WIDTH, _ROW, _TOP = 150, 520, 20, 30
# The units in the order of `model_command`, then what is waited for.
_BUSY, _WAITS = "#0072b2", "#d55e00"
# Shares below this are not drawn.
_LEAST = 0.01


def shares(kernel: Kernel) -> Iterator[tuple[str, str, float, bool]]:
    """(role, what, share of the time, whether it is waited for), the largest first."""
    for role in kernel.roles:
        facts = [(unit, cycles, False) for unit, cycles in role.busy.items()]
        facts += [(f"waits for {what}", cycles, True) for what, cycles in role.waited.items()]
        for what, cycles, waits in sorted(facts, key=lambda fact: (fact[2], -fact[1])):
            share = cycles / kernel.alone if kernel.alone else 0.0
            if share >= _LEAST:
                yield role.name, what, min(share, 1.0), waits


def svg(kernel: Kernel) -> str:
    """The picture: a bar for each unit and wait of each role, all of the time to the right."""
    rows = list(shares(kernel))
    width, height = _LEFT + _WIDTH + 60, _TOP + _ROW * len(rows) + 10
    title = f"{kernel.name}: shares of {kernel.alone:,.0f} cycles, by the model"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="6" y="18">{escape(title)}</text>',
    ]
    before = ""
    for number, (role, what, share, waits) in enumerate(rows):
        y = _TOP + _ROW * number
        head = f"{role}, {what}" if role != before else what
        before = role
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 14}" text-anchor="end">{escape(head)}</text>'
            f'<rect x="{_LEFT}" y="{y + 3}" width="{share * _WIDTH:.1f}" height="{_ROW - 6}" '
            f'fill="{_WAITS if waits else _BUSY}"/>'
            f'<text x="{_LEFT + share * _WIDTH + 4:.1f}" y="{y + 14}">{share:.0%}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])
