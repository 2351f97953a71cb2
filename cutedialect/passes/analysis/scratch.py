"""What reductions over warps take of shared memory: a place for what each warp holds of a row."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr

from cutedialect.dialects.cute import KernelOp, ReduceOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.coordinates import Digit, split_digits, thread_value
from cutedialect.passes.analysis.role_plan import ROLES, role_of

_WARP = 32
# Bytes to which what a reduction takes is rounded, and of a word and of a long one.
_CHUNK, _WORD, _LONG = 16, 4, 8
# Where a role's numbers say how many teams it has, if several.
_TEAMS = 3


def scratch_across_warps(digits: Sequence[Digit], mode: int, rows: int, size: int) -> int:
    """Bytes in which warps exchange what they hold of rows along a mode: so many `rows` of a
    thread, of elements of `size` bytes; 0 where no row is shared by warps.
    """
    warps = [each.extent for each in digits if each.steps[mode] and each.divisor >= _WARP]
    others = prod(each.extent for each in digits if not each.steps[mode])
    return rows * prod(warps) * others * size if warps else 0


def scratch_of(op: ReduceOp) -> int:
    """What a reduction of a bound tile takes."""
    if op.local is not None:
        return 0
    source, result = op.source.type, op.result.type
    threads = thread_value(source.bound, source.shape).threads
    size = _LONG if source.bits > _WORD * 8 else _WORD
    return scratch_across_warps(
        split_digits(threads, (_WARP,)), op.mode.value.data, result.values, size
    )


def scratch_bytes(kernel: KernelOp) -> int:
    """What all reductions of a kernel take: those of a role share a place, which is another one
    where a later reduction needs more.
    """
    taken: dict[str | None, list[int]] = {}
    for op in ops_of(kernel, ReduceOp):
        sizes = taken.setdefault(role_of(op), [])
        size = -(-scratch_of(op) // _CHUNK) * _CHUNK
        if size > max(sizes, default=0):
            sizes.append(size)
    return sum(_teams_of(kernel, role) * sum(sizes) for role, sizes in taken.items())


def _teams_of(kernel: KernelOp, role: str | None) -> int:
    """How many teams of warps a role has, each with places of its own."""
    listed = kernel.attributes.get(ROLES)
    numbers = listed.data.get(role or "") if isinstance(listed, DictionaryAttr) else None
    if not isinstance(numbers, DenseArrayBase):
        return 1
    taken = numbers.get_values()
    return int(taken[_TEAMS]) if len(taken) > _TEAMS else 1
