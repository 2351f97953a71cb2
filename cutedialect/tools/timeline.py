"""Timelines of launches in the emulator as pictures: what the roles of a kernel do, and when, in
model time (`backend/emulator/timeline.py`), with names of roles from the kernel's IR. Warps of
kernels without roles have numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from xdsl.context import Context

from cutedialect import environment
from cutedialect.backend.emulator import timeline as model_time
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.dialects import all_dialects
from cutedialect.dialects.pipeline import RoleOp
from cutedialect.dialects.walks import ops_of
from cutedialect.frontend.launch import known_kernels
from cutedialect.tools.locating_parser import LocatingParser

# Kinds of work: what a span's IR op begins with, and a color (after Okabe and Ito, light enough for
# black text).
_KINDS = {
    "waits": ((), "#eeeeee"),
    "copies": (("cute.copy", "cute.load", "cute.stage", "cute.local_tile"), "#9fd3f6"),
    "multiplies": (("cute.gemm",), "#f4a582"),
    "exponentials": (("math.exp",), "#f6c667"),
    "rows": (("cute.reduce",), "#8fdcc0"),
    "arithmetic": (("arith", "math", "cute.map", "cute.fill", "cute.convert"), "#e3b7d6"),
    "other": (("",), "#b9c4f0"),
}
_BINS, _BIN, _ROW, _LEFT, _TOP = 480, 2, 24, 110, 26


@dataclass(frozen=True)
class Row:
    """What a role's first warp, or a unit, did: (first bin, bins, kind), and cycles by kind."""

    name: str
    runs: tuple[tuple[int, int, str], ...]
    cycles: dict[str, int]


@dataclass(frozen=True)
class Timeline:
    """What the warps of a launch's first CTA did in the emulator, role by role, until cycle `end`
    of its model. A notebook shows it as a picture, `print` as a table of cycles by kind of work.
    """

    rows: tuple[Row, ...]
    end: int

    def svg(self) -> str:
        """The picture: time to the right, a row for each role, a color for each kind of work."""
        return svg(self.rows, self.end)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return table(self.rows, self.end)


@contextmanager
def timeline() -> Iterator[list[Timeline]]:
    """Record launches: `with cute.timeline() as launches:` runs the kernels inside in the emulator,
    where no backend is chosen, and fills the list, in order, when it ends.
    """
    drawn: list[Timeline] = []
    with model_time.recording() as recorded, environment.without_device():
        yield drawn
    drawn += [drawn_timeline(launch) for launch in recorded]


def drawn_timeline(launch: model_time.Timeline, scope: Mapping[str, Any] | None = None) -> Timeline:
    """A recorded launch with the names of roles; `scope` has kernels beside the known ones."""
    rows, end = rows_of(launch, roles_of(_stage(launch.ptx, scope or {})))
    return Timeline(tuple(rows), end)


def _stage(ptx: str, scope: Mapping[str, Any]) -> str:
    """The IR with the roles of the kernel that a launch ran: of those that the process has compiled
    the one with this PTX, or one that the script has.
    """
    for kernel in (*known_kernels(), *scope.values()):
        if isinstance(kernel, Kernel) and kernel.ptx == ptx:
            return kernel.stages.get("cute-synchronize", "")
    return ""


def roles_of(text: str) -> dict[int, str]:
    """The name of each role in a module's text, by its first warp."""
    if not text:
        return {}
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    module = LocatingParser(context, text, "input").parse_module()
    return {op.warp_range.start: op.role.data for op in ops_of(module, RoleOp)}


def rows_of(timeline: model_time.Timeline, roles: dict[int, str]) -> tuple[list[Row], int]:
    """A row for each role or warp and for each unit, and the last cycle."""
    spans: dict[int | str, list[model_time.Span]] = {}
    for span in timeline.spans:
        spans.setdefault(span.who, []).append(span)
    end = max((span.end for span in timeline.spans), default=1)
    warps = sorted(who for who in spans if isinstance(who, int))
    names: dict[int | str, str] = {warp: f"warp {warp}" for warp in warps if not roles}
    for warp, name in roles.items():
        names[warp] = name
    names |= {model_time.COPIES: "copies (TMA)", model_time.TENSOR: "tensor core"}
    return [_row(name, spans.get(who, []), end) for who, name in names.items()], end


def _row(name: str, spans: Sequence[model_time.Span], end: int) -> Row:
    cycles: dict[str, int] = {}
    bins: list[dict[str, int]] = [{} for _ in range(_BINS)]
    for span in spans:
        kind = _kind(span)
        cycles[kind] = cycles.get(kind, 0) + span.end - span.start
        for at in range(span.start * _BINS // end, min(_BINS, -(-span.end * _BINS // end))):
            first, last = at * end // _BINS, (at + 1) * end // _BINS
            part = min(span.end, last) - max(span.start, first)
            bins[at][kind] = bins[at].get(kind, 0) + max(part, 0)
    runs: list[tuple[int, int, str]] = []
    for at, shares in enumerate(bins):
        kind = max(shares, key=shares.__getitem__) if shares else ""
        if runs and runs[-1][2] == kind and sum(runs[-1][:2]) == at:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, kind)
        elif kind:
            runs.append((at, 1, kind))
    return Row(name, tuple(runs), cycles)


def _kind(span: model_time.Span) -> str:
    if span.who == model_time.COPIES:
        return "copies"
    if span.who == model_time.TENSOR:
        return "multiplies"
    if span.waits:
        return "waits"
    return next(kind for kind, (heads, _) in _KINDS.items() if span.what.startswith(heads))


def svg(rows: Sequence[Row], end: int) -> str:
    """The picture: time to the right, a row for each role, a color for each kind of work."""
    width, height = _LEFT + _BINS * _BIN + 10, _TOP + _ROW * len(rows) + 52
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (kind, (_, color)) in enumerate(_KINDS.items()):
        x = _LEFT + 120 * number
        parts.append(f'<rect x="{x}" y="6" width="12" height="12" fill="{color}"/>')
        parts.append(f'<text x="{x + 16}" y="16">{kind}</text>')
    for number, row in enumerate(rows):
        y = _TOP + _ROW * number
        parts.append(f'<text x="6" y="{y + 16}">{escape(row.name)}</text>')
        for first, count, kind in row.runs:
            x, color = _LEFT + first * _BIN, _KINDS[kind][1]
            title = f"{kind}, cycles {first * end // _BINS} to {(first + count) * end // _BINS}"
            parts.append(
                f'<rect x="{x}" y="{y + 2}" width="{count * _BIN}" height="{_ROW - 4}" '
                f'fill="{color}"><title>{title}</title></rect>'
            )
    below = _TOP + _ROW * len(rows) + 16
    for tick in range(0, 11, 2):
        x = _LEFT + _BINS * _BIN * tick // 10
        # The last number ends where the picture does.
        anchor = "end" if tick == 10 else "middle"
        parts.append(f'<text x="{x}" y="{below}" text-anchor="{anchor}">{end * tick // 10}</text>')
    text = "cycles of the model: no warp takes issue slots from another"
    parts.append(f'<text x="{_LEFT}" y="{below + 20}">{text}</text>')
    return "\n".join([*parts, "</svg>", ""])


def table(rows: Sequence[Row], end: int) -> str:
    """Cycles by role and kind of work."""
    kinds = list(_KINDS)
    lines = [f"{end} cycles", "  ".join([f"{'':13}", *(f"{kind:>12}" for kind in kinds)])]
    for row in rows:
        shown = (f"{row.cycles.get(kind, 0):12}" for kind in kinds)
        lines.append("  ".join([f"{row.name:13}", *shown]))
    return "\n".join(lines)
