"""Register tiles that cross roles: a step of `cute-assign-warp-roles`.

    gemm a, b, acc (mma); y = f(acc) (main)
    =>
    gemm a, b, acc (mma); copy acc, s (mma); copy s, t (main); y = f(t) (main)

A tile that one role makes and another one reads gets a buffer in shared memory and two copies, one
of each role; `cute-synchronize` makes the buffer a ring like any other that crosses roles. A
mutable tile belongs to one role, which multiplies into it, or else to the role of the first op that
writes it: that role does all that writes it.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AllocSmemOp,
    CopyOp,
    FragmentType,
    GemmOp,
    KernelOp,
    MemRefType,
)
from cutedialect.dialects.cute_nvgpu import UniversalCopyType
from cutedialect.dialects.effects import RMEM, space_of, written, written_by
from cutedialect.dialects.walks import walk
from cutedialect.passes.bind.smem_layouts import staging_layout
from cutedialect.passes.rewriting import insert_after, insert_before

ROLE = "role"


def role_of(op: Operation) -> str | None:
    """The role that an op was given."""
    given = op.attributes.get(ROLE)
    return given.data if given is not None and isinstance(given, StringAttr) else None


def give(role: str, *ops: Operation) -> None:
    """Say who does some ops."""
    name = StringAttr(role)
    for op in ops:
        op.attributes[ROLE] = name


def settle_owners(kernel: KernelOp) -> None:
    """Let one role do all that makes or writes a mutable register tile without reading another
    role's: the one that multiplies into it, or that of its first writer.
    """
    places = {op: at for at, op in enumerate(walk(kernel))}
    for alloc in [op for op in places if isinstance(op, AllocFragmentOp)]:
        users = [use.operation for use in alloc.result.uses]
        writers = [op for op in users if alloc.result in written(op)]
        gemms = [op for op in writers if isinstance(op, GemmOp)]
        first = min(gemms or writers or [alloc], key=places.__getitem__)
        owner = role_of(first)
        if owner is not None:
            give(owner, alloc, *(op for op in writers if not isinstance(op, GemmOp)))


def cross_tiles(kernel: KernelOp) -> None:
    """Bring every register tile to the roles that read it."""
    crossing = _Crossing(kernel)
    for op in list(walk(kernel.body.block)):
        reader = role_of(op)
        if reader is None:
            continue
        for number, value in enumerate(op.operands):
            maker = None if space_of(value) != RMEM else crossing.maker(value)
            if maker is None or maker == reader:
                continue
            if value in written(op):
                raise PassFailedException(
                    op,
                    f"expected one role to write a register tile, got '{reader}' for one of "
                    f"'{maker}'",
                )
            op.operands[number] = crossing.brought(value, maker, reader, op)


class _Crossing:
    """The copies that have been made in a kernel."""

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        # By the tile and the role that has it: where it was brought from, and the copy there.
        self.made: dict[tuple[SSAValue, str], CopyOp] = {}

    def maker(self, value: SSAValue) -> str | None:
        """The role that has a register tile; none where a map's body names an element."""
        return None if isinstance(value.owner, Block) else role_of(value.owner)

    def brought(self, value: SSAValue, maker: str, reader: str, op: Operation) -> SSAValue:
        """The tile as the reading role has it in front of an op."""
        known = self.made.get((value, reader))
        if known is not None and self._still_holds(value, known, op):
            return known.destination
        type_ = value.type
        assert isinstance(type_, FragmentType)
        if type_.bits < 8 or type_.tv is None:
            raise PassFailedException(
                op,
                f"expected a tile of numbers to go from role '{maker}' to role '{reader}', got "
                f"{type_}; compute conditions in the role that takes them",
            )
        contiguous = len(type_.shape) - 1
        layout, swizzle, alignment = staging_layout(type_.shape, contiguous, type_.bits, type_.tv)
        smem = MemRefType.get(type_.element, "smem", alignment, layout, swizzle)
        buffer, tile = AllocSmemOp(smem), AllocFragmentOp(type_)
        buffer.location = op.location
        top = self.kernel.body.block.first_op
        assert top is not None
        self.kernel.body.block.insert_op_before(buffer, top)
        atom = UniversalCopyType.get(type_.element, 128)
        leave = CopyOp(value, buffer.result, atom=atom)
        arrive = CopyOp(buffer.result, tile.result, atom=atom)
        give(maker, leave)
        give(reader, tile, arrive)
        made = value.owner
        if isinstance(made, AllocFragmentOp):
            insert_before(op, leave, tile, arrive)
        else:
            assert isinstance(made, Operation)
            insert_after(made, leave, tile, arrive)
        self.made[value, reader] = arrive
        return tile.result

    def _still_holds(self, value: SSAValue, known: CopyOp, op: Operation) -> bool:
        """Whether a copy stands in front of an op with nothing between that writes the tile."""
        block = known.parent
        assert block is not None
        around = block.find_ancestor_op_in_block(op)
        if not isinstance(value.owner, AllocFragmentOp):
            return around is not None
        between: Operation | None = known
        while between is not None and between is not around:
            if value in written_by(between):
                return False
            between = between.next_op
        return between is not None and value not in written_by(between)
