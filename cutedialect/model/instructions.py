"""What instructions of the ptx dialect take of a multiprocessor's units: a table by family and
type, and sums over the bodies of unrolled regions.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, Operation

from cutedialect.dialects.ptx import ScalarOp

from .devices import Device

# Families that a special-function unit computes (16 results of an SM in a cycle), and those that
# end up as modifiers of operands, or as nothing.
_SPECIAL = frozenset(("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh"))
_FREE = frozenset(("mov", "neg", "abs", "pack", "unpack", "imm", "yield", "cvta"))
_FLOATING = frozenset(("add", "sub", "mul", "fma", "mad"))
# Cycles until a special function's result is there.
_SPECIAL_RESULT = 20.0


@dataclass(frozen=True)
class Work:
    """Issue slots of a warp, cycles of each unit of its quarter, and the least cycles from the
    first operand to the last result.
    """

    slots: float
    units: tuple[tuple[str, float], ...]
    chain: float


def unit_of(op: Operation) -> str | None:
    """The unit that executes a scalar op; None for one that takes no slot."""
    family = op.name.removeprefix("ptx.")
    if family in _FREE:
        return None
    if family in ("shfl", "vote"):
        return "shuffle"
    if not isinstance(op, ScalarOp):
        return "alu"
    kind = op.modifiers.data
    if family in _SPECIAL:
        return "sfu"
    if family in _FLOATING and any(part in kind for part in ("f32", "f16", "bf16")):
        return "fma"
    return "alu"


def work_of(block: Block, trips: int, device: Device) -> Work:
    """The work of a region that is unrolled so many times, its trips independent of each other."""
    slots, units = 0.0, dict[str, float]()
    depth: dict[object, float] = {}
    longest = 0.0
    for op in block.ops:
        unit = unit_of(op)
        latency = 0.0
        if unit is not None:
            wide = isinstance(op, ScalarOp) and "x2" in op.modifiers.data and unit == "fma"
            slots += 1
            amount = device.heavy[unit]
            if wide and "f32x2" in op.modifiers.data:  # pyright: ignore[reportAttributeAccessIssue]
                amount *= 2
            units[unit] = units.get(unit, 0.0) + amount
            latency = _SPECIAL_RESULT if unit in ("sfu", "shuffle") else device.result
        at = max((depth.get(value, 0.0) for value in op.operands), default=0.0) + latency
        for result in op.results:
            depth[result] = at
        longest = max(longest, at)
    parts = tuple((unit, amount * trips) for unit, amount in units.items())
    return Work(slots * trips, parts, max(longest, slots * trips * device.pace))
