"""What a kernel may do in memory where CTAs share the reduction of a loop (`split_reduction`): each
of them runs what stands in front of the loop and its own trips, none knows how far the others are,
and one alone goes on behind the loop.

    atomic x, c; for k in 0..n { acc += f(k) }        each CTA adds x
    for k in 0..n { acc += f(k); copy x(k), d }       no trip is the last one to store
    for k in 0..n { acc += f(k); copy x(k), d(k) }    right
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute
from cutedialect.dialects.effects import effects_of, space_of
from cutedialect.dialects.walks import walk
from cutedialect.passes.analysis.memory_views import depends_on, ordering_atomic, root_of
from cutedialect.passes.rewriting import block_of

_FRONT, _INSIDE, _BEHIND = "in front of", "in", "behind"
WHOLE_REDUCTION = "take a schedule that splits no reduction"


@dataclass(frozen=True)
class _Use:
    """An op that touches a tile of a tensor: where it stands to the loop, and how it does."""

    op: Operation
    tile: SSAValue
    place: str
    kind: str

    @property
    def writes(self) -> bool:
        return self.kind != "read"


def check_shared_effects(kernel: cute.KernelOp, loop: scf.ForOp) -> None:
    """Refuse what is right in one CTA alone: PassFailedException at the op."""
    ordering = ordering_atomic(kernel.body.block)
    if ordering is not None:
        raise PassFailedException(
            ordering,
            f"expected relaxed atomics where CTAs share a reduction, got {ordering.modifiers}; "
            f"{WHOLE_REDUCTION}",
        )
    tensors: dict[SSAValue, list[_Use]] = {}
    for use in _uses(kernel, loop):
        tensors.setdefault(root_of(use.tile), []).append(use)
    trip = loop.body.block.args[0]
    for uses in tensors.values():
        for use in uses:
            if use.kind == "atomic" and use.place == _FRONT:
                raise PassFailedException(
                    use.op,
                    "expected no atomic in front of a loop whose reduction is split, which every "
                    f"CTA of a tile would do; {WHOLE_REDUCTION}",
                )
            if use.kind == "store" and use.place == _INSIDE and not depends_on(use.tile, trip):
                raise PassFailedException(
                    use.op,
                    "expected a store at another place in each trip of a loop whose reduction is "
                    f"split, got one place for all trips; {WHOLE_REDUCTION}",
                )
        _check_alone(uses)


def _check_alone(uses: list[_Use]) -> None:
    """Refuse other accesses to a tensor that CTAs write before they know of each other."""
    first = next((use for use in uses if use.writes and use.place != _BEHIND), None)
    if first is None:
        return
    for use in uses:
        if use.kind == first.kind and (use.place == first.place or use.kind == "atomic"):
            continue
        raise PassFailedException(
            use.op,
            f"expected nothing but the {first.kind} {first.place} a loop whose reduction is split "
            f"on a tensor, got another access {use.place} it; {WHOLE_REDUCTION}",
        )


def _uses(kernel: cute.KernelOp, loop: scf.ForOp) -> Iterator[_Use]:
    """What reads and writes tensors, in program order."""
    block, place = block_of(loop), _FRONT
    for top in block.ops:
        if top is loop:
            place = _INSIDE
        elif place == _INSIDE:
            place = _BEHIND
        for op in walk(top):
            effects = effects_of(op)
            writing = "atomic" if isinstance(op, cute.AtomicOp) else "store"
            reads = (op.source,) if isinstance(op, cute.ReadOp) else effects.reads
            for tiles, kind in ((effects.writes, writing), (reads, "read")):
                for tile in tiles:
                    is_own = kind == "read" and tile in effects.writes
                    if space_of(tile) == "gmem" and not is_own:
                        yield _Use(op, tile, place, kind)
