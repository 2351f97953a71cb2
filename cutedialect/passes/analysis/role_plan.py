"""Which ops a role of a plan (`plans.py`) takes, by kind, the role that an op was given, and what
the warpgroups of a kernel that multiplies do with registers: the facts by which these are allocated
(`allocation.registers_of_roles`), of a kernel whose operands are still tiles of global memory, for
who binds them, and of one whose ops have roles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import scf
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from cutedialect.allocation import RoleUse
from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import OperandCopyType, TmaPrefetchOp
from cutedialect.dialects.effects import RMEM, Unit, effects_of, space_of, touches_tiles, written
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.gathered_rows import IN_FOURS
from cutedialect.passes.analysis.memory_views import uses_of
from cutedialect.passes.analysis.operand_plans import LINES, NUMBERS_ROWS, comes_by_tma, plan_of
from cutedialect.plans import WARPS_OF_GROUP, RoleRow
from cutedialect.schedule import Schedule

ROLE = "role"
"""The attribute of an op with its role."""
ROLES = "roles"
"""The kernel's attribute with its roles, where it has more than one."""
# Where a multiply has its accumulator among its operands.
_ACCUMULATOR = 2
PREPARING_WARPS = 2
"""Warps that transpose or convert operands in shared memory."""
ADDS_PRODUCTS = "cute.adds_products"
"""The attribute of a kernel whose threads add what tensor memory holds to sums in registers."""


def is_load(op: Operation) -> bool:
    """Whether an op brings a tile from global to shared memory, by whatever atom."""
    return isinstance(op, cute.CopyOp) and (space_of(op.source), space_of(op.destination)) == (
        "gmem",
        "smem",
    )


def is_preparing(op: Operation) -> bool:
    """Whether an op brings a tile in shared memory into the form in which it is multiplied."""
    if not isinstance(op, cute.CopyOp):
        return False
    return isinstance(op.atom, OperandCopyType) and space_of(op.source) == "smem"


def is_update(op: Operation) -> bool:
    """Whether an op computes what an accumulator of multiplies holds from then on, out of that."""
    if not isinstance(op, cute.MapOp):
        return False
    users = [use.operation for use in op.result.uses]
    kept = {user.destination for user in users if isinstance(user, cute.CopyOp)}
    return len(kept) == 1 == len(users) and any(
        isinstance(use.operation, cute.GemmOp) and use.operation.acc is value
        for value in kept & {*op.operands}
        for use in value.uses
    )


def multiplies_into(alloc: cute.AllocTmemOp) -> list[cute.GemmOp]:
    """The multiplies that add to a buffer."""
    users = (use.operation for use in alloc.result.uses)
    return [op for op in users if isinstance(op, cute.GemmOp) and op.acc is alloc.result]


def is_corrected(alloc: cute.AllocTmemOp) -> bool:
    """Whether multiplies add to what threads have written, and none of them begins anew."""
    uses = [(use.operation, use.index) for use in uses_of(alloc.result)]
    gemms = [op for op, index in uses if isinstance(op, cute.GemmOp) and index == _ACCUMULATOR]
    is_stored = any(isinstance(op, cute.CopyOp) and index == 1 for op, index in uses)
    return bool(gemms) and is_stored and all(op.keeps is None for op in gemms)


def corrections(kernel: cute.KernelOp) -> set[Operation]:
    """The ops that touch accumulators in tensor memory which threads update in place, and what is
    computed from what these hold, but for the multiplies.
    """
    tiles: set[SSAValue] = {
        op.result for op in ops_of(kernel, cute.AllocTmemOp) if is_corrected(op)
    }
    found: set[Operation] = set()
    for op in walk(kernel.body.block) if tiles else ():
        touches = any(space_of(value) is not None and value in tiles for value in op.operands)
        if not touches or effects_of(op).unit is Unit.TCGEN05:
            continue
        found.add(op)
        tiles.update(op.results)
        tiles.update(value for value in written(op) if space_of(value) in (RMEM, "smem"))
        to_tmem = isinstance(op, cute.CopyOp) and space_of(op.destination) == "tmem"
        if to_tmem and isinstance(op.source.owner, cute.AllocFragmentOp):
            users = (use.operation for use in op.source.uses)
            found.update(user for user in users if isinstance(user, cute.FillOp))
    for op in ops_of(kernel, cute.AnyOp) if found else ():
        found.update(_decided_by(op, found))
    return found


def additions(kernel: cute.KernelOp) -> set[Operation]:
    """The ops that add tiles to memory in the trips of a loop, and what only brings tiles to them
    from where multiplies have left them.
    """
    found: set[Operation] = {
        op for op in ops_of(kernel, cute.AtomicOp) if isinstance(op.parent_op(), scf.ForOp)
    }
    for op in reversed([*walk(kernel.body.block)]) if found else ():
        if not isinstance(op, cute.CopyOp | cute.MapOp | cute.AllocFragmentOp):
            continue
        made = op.destination if isinstance(op, cute.CopyOp) else op.results[0]
        users = {use.operation for use in made.uses} - {op} if space_of(made) == RMEM else set()
        if users and users <= found:
            found.add(op)
    return found


def _decided_by(op: cute.AnyOp, corrections: set[Operation]) -> Iterator[Operation]:
    """A local condition, and the map that it asks, if all that they are for is whether some
    corrections take place: who corrects knows it from the tiles that it corrects by.
    """
    branches = [use.operation for use in op.result.uses]
    inside = {
        inner
        for branch in branches
        for inner in walk(branch)
        if touches_tiles(inner) and not isinstance(inner, cute.AllocFragmentOp)
    }
    if op.local is None or not inside <= corrections:
        return
    if all(isinstance(branch, scf.IfOp) for branch in branches) and inside:
        yield op
        made = op.source.owner
        if isinstance(made, cute.MapOp) and made.result.has_one_use():
            yield made


@dataclass(frozen=True)
class Apart:
    """What roles may take of a kernel that no op tells by itself."""

    corrections: set[Operation]
    additions: set[Operation]

    @staticmethod
    def of(kernel: cute.KernelOp) -> Apart:
        """The `corrections` and `additions` of a kernel."""
        return Apart(corrections(kernel), additions(kernel))


# By each of `plans.KINDS`: told of an op, and of what is apart in its kernel.
_IS_OF_KIND: dict[str, Callable[[Operation, Apart], bool]] = {
    "loads": lambda op, _: (
        is_load(op) or isinstance(op, TmaPrefetchOp) or NUMBERS_ROWS in op.attributes
    ),
    "prepares": lambda op, _: is_preparing(op),
    "multiplies": lambda op, _: isinstance(op, cute.GemmOp),
    "updates": lambda op, _: is_update(op),
    "tensor_multiplies": lambda op, _: effects_of(op).unit is Unit.TCGEN05,
    # By one thread: what a warpgroup of several has of a tile is stored by each.
    "stores": lambda op, _: (
        effects_of(op).unit is Unit.TMA_STORE
        and getattr(getattr(op, "atom", None), "warps", None) is None
    ),
    "nothing": lambda op, _: False,
    "rest": lambda op, _: True,
    "corrects": lambda op, apart: op in apart.corrections,
    "adds": lambda op, apart: op in apart.additions,
}


def accepts(row: RoleRow, op: Operation, apart: Apart) -> bool:
    """Whether a row takes an op; `apart` is that of its kernel."""
    return any(_IS_OF_KIND[kind](op, apart) for kind in row.takes)


def role_of(op: Operation) -> str | None:
    """The role that an op was given."""
    given = op.attributes.get(ROLE)
    return given.data if given is not None and isinstance(given, StringAttr) else None


def give(role: str, *ops: Operation) -> None:
    """Say who does some ops."""
    name = StringAttr(role)
    for op in ops:
        op.attributes[ROLE] = name


def loads_boxes(gemms: Sequence[cute.GemmOp], schedule: Schedule) -> bool:
    """Whether TMA brings all operands in global memory."""
    tiles = [tile for op in gemms for tile in (op.a, op.b)]
    return schedule.loads != "threads" and all(
        comes_by_tma(tile) for tile in tiles if isinstance(tile.type, cute.MemRefType)
    )


def use_of_operands(kernel: cute.KernelOp, in_tensor_memory: bool) -> RoleUse:
    """The facts of a kernel whose operands are tiles of global memory."""
    gemms, schedule = ops_of(kernel, cute.GemmOp), kernel.choices
    plans = [plan_of(op, tile) for op in gemms for tile in (op.a, op.b)]
    copying = "shifts" if any(plan.travels == LINES for plan in plans) else "copies"
    return RoleUse(
        computing=_computing(kernel),
        multiplies=len(gemms),
        loads=_boxes_of(kernel) if loads_boxes(gemms, schedule) else copying,
        prepares=any(plan.computes == "prepares" for plan in plans),
        in_tensor_memory=in_tensor_memory,
        adds=ADDS_PRODUCTS in kernel.attributes,
        ctas=schedule.ctas or 1,
    )


def use_of_copies(kernel: cute.KernelOp) -> RoleUse:
    """The facts of a kernel whose operands are copied to shared memory, by atoms."""
    gemms, copies = ops_of(kernel, cute.GemmOp), ops_of(kernel, cute.CopyOp)
    preparing = [op for op in copies if is_preparing(op)]
    by_boxes = all(effects_of(op).unit is Unit.TMA_LOAD for op in copies if is_load(op))
    copying = "shifts" if any(op.origin is not None for op in preparing) else "copies"
    return RoleUse(
        computing=_computing(kernel),
        multiplies=len(gemms),
        loads=_boxes_of(kernel) if by_boxes else copying,
        prepares=bool(preparing),
        in_tensor_memory=any(effects_of(op).unit is Unit.TCGEN05 for op in gemms),
        adds=ADDS_PRODUCTS in kernel.attributes,
        ctas=kernel.choices.ctas or 1,
    )


def _boxes_of(kernel: cute.KernelOp) -> Literal["boxes", "rows"]:
    """Whether TMA copies rows, whose numbers threads that load have in registers."""
    tiles = ops_of(kernel, cute.IndexedTileOp)
    return "rows" if any(IN_FOURS in tile.attributes for tile in tiles) else "boxes"


def _computing(kernel: cute.KernelOp) -> int:
    """Warpgroups of all teams that compute."""
    assert kernel.threads is not None
    return kernel.choices.plan.teams * kernel.threads.value.data // (WARP_SIZE * WARPS_OF_GROUP)
