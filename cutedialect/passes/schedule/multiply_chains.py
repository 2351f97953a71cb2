"""A step of `cute-schedule-loops`: in a loop of chained warpgroup multiplies, the last of which
sums over all trips, the last works one trip later, beside what is computed for the next one.

    for j { s = q k[j]; p = f(s); rescale o; o += p v[j] }
    =>
    for j {
        s = q k[j] {0, 0}; complete s {0, 3}; p = f(s) {0, 4}; rescale o {0, 7}
        o += p v[j] {1, 1}; complete o {1, 5}
    }

in braces the stage and the order of each op (`trips.py`). So both groups begin and end in one trip:
the assembler serializes multiplies that cross the back edge while another accumulator is read. What
the last multiply adds to is touched behind its completion; all other code stands between both,
where the tensor cores work on the last group, but for what is computed for rows or columns alone:
that comes before both. Multiplies between the first and the last one keep their places in that
code. What follows the last multiply and touches its accumulator (a decay) comes a trip later as
well. What the last multiply takes is made beside it if that costs more than a conversion, else
behind it. A loop of several multiplies whose dependences forbid this keeps the order of its
program, with a remark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AnyOp,
    ConvertOp,
    CopyOp,
    ExtractOp,
    FillOp,
    FragmentType,
    GemmOp,
    KernelOp,
    LoadOp,
    MapOp,
    ReduceOp,
    YieldOp,
)
from cutedialect.dialects.effects import (
    is_in_memory,
    is_pure,
    space_of,
    used_by,
    written,
    written_by,
)
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import insert_after
from cutedialect.passes.schedule.trips import (
    clear_place,
    inside,
    order_of,
    producers_of,
    set_place,
    trip_of,
    wrong_order,
)
from cutedialect.passes.synchronize.memory_views import root_of
from cutedialect.passes.synchronize.multiply_groups import is_warpgroup_multiply

TURNS = "turns"
"""The attribute of a loop whose warpgroups issue their multiplies one after the other."""
# The order of a trip: up to the first multiply, the last one of the trip before, ...
_FIRST, _LAST, _AHEAD, _FIRST_DONE, _BESIDE, _LAST_DONE, _TAIL, _BEHIND = range(8)


def schedule_chains(kernel: KernelOp, stages: int) -> None:
    """Give the ops of a kernel's loops of chained multiplies a stage and an order; the rings that
    other roles fill have so many stages.
    """
    assert kernel.schedule is not None
    for loop in ops_of(kernel, scf.ForOp):
        if loop.iter_args or any(order_of(op) is not None for op in loop.body.block.ops):
            # Who has written places for the ops of a loop keeps them.
            continue
        try:
            first, other = (_chain(_own(trip_of(loop, at)), loop, stages) for at in (True, False))
        except _DeclinedError as declined:
            why = f"multiplies of two trips not overlapped: {declined}"
            remark("cute-schedule-loops", declined.op, why)
            continue
        if first is None or other is None or first.late != other.late:
            continue
        first.place()
        other.place()
        wrong = wrong_order(other.ops)
        if wrong is not None:
            for op in {*first.ops, *other.ops}:
                clear_place(op)
            remark(
                "cute-schedule-loops",
                wrong[1],
                f"multiplies of two trips not overlapped: {wrong[1].name} depends on a "
                f"{wrong[0].name} that would come behind it",
            )
            continue
        for gemm, stage, order in (
            (other.first, 0, _FIRST_DONE),
            (other.last, 1, _LAST_DONE),
        ):
            complete = CompleteOp([gemm.acc])
            complete.attributes["role"] = gemm.attributes["role"]
            set_place(complete, stage, order)
            insert_after(gemm, complete)
        if kernel.schedule.data.overlap == "turns":
            loop.attributes[TURNS] = UnitAttr()


class _DeclinedError(Exception):
    """Why a loop of several multiplies is not skewed, and the op that it is about."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(reason)
        self.op = op


@dataclass(frozen=True)
class _Chain:
    """The ops of a trip in program order: what comes before the end of the `first` multiply, what
    can run while the `last` works, and what has to follow that. `late` are the last multiplies and
    the tail that follows them in their own trip: they come a trip later.
    """

    ops: tuple[Operation, ...]
    first: GemmOp
    last: GemmOp
    late: tuple[Operation, ...]
    before: tuple[Operation, ...]
    ahead: tuple[Operation, ...]
    beside: tuple[Operation, ...]
    behind: tuple[Operation, ...]

    def place(self) -> None:
        """Give each op its stage and order."""
        for ops, order in (
            (self.before, _FIRST),
            (self.beside, _BESIDE),
            (self.ahead, _AHEAD),
            (self.behind, _BEHIND),
        ):
            for op in ops:
                set_place(op, 0, order)
        for op in self.late:
            set_place(op, 1, _LAST if is_warpgroup_multiply(op) else _TAIL)


def _own(ops: Sequence[Operation]) -> list[Operation]:
    """The ops of the role that multiplies: what others do has its own loop."""
    roles = [op.attributes.get("role") for op in ops if is_warpgroup_multiply(op)]
    mine = roles[0] if roles else None
    return [
        op
        for op in ops
        if not isinstance(given := op.attributes.get("role"), StringAttr) or given == mine
    ]


def _chain(body: list[Operation], loop: scf.ForOp, stages: int) -> _Chain | None:
    """The parts of a trip with chained multiplies; None for a loop with fewer than two.

    Raises `_DeclinedError` for a trip that cannot be taken apart.
    """
    gemms = [op for op in body if isinstance(op, GemmOp) and is_warpgroup_multiply(op)]
    firsts = [op for op in gemms if op.acc is gemms[0].acc]
    lasts = [op for op in gemms if op.acc is gemms[-1].acc]
    if len(gemms) < 2 or firsts[-1] is gemms[-1]:
        return None
    first, last, acc = firsts[-1], gemms[-1], gemms[-1].acc
    if acc.owner in body:
        raise _DeclinedError(last, "its accumulator does not outlive the trip")
    reading = _dependents(body[: body.index(lasts[0])], {acc})
    held = next((op for op in gemms if op in reading), None)
    if held is not None:
        # On an H100 linear attention takes up to 12 % longer so: its scores are masked beside the
        # last multiply then, but those that read the state begin later, one by one.
        raise _DeclinedError(
            held,
            "it reads what the last one adds to, and would wait for that; those of one trip work "
            "together",
        )
    if gemms[-len(lasts) :] != lasts or gemms[: len(firsts)] != firsts:
        raise _DeclinedError(last, "other multiplies stand between those of one accumulator")
    at, end = body.index(first), body.index(last)
    before = body[: at + 1]
    if acc in used_by(*before):
        raise _DeclinedError(last, "its accumulator is touched before the first multiply")
    tail = _dependents(body[end + 1 :], {acc})
    late = (*lasts, *tail)
    made = [each for gemm in lasts for each in _operands(gemm, body)]
    if any(op in before for op in made):
        raise _DeclinedError(last, "its operands do not depend on the first multiply")
    rest = [op for op in body[at + 1 :] if op not in late]
    stored = {root_of(each) for each in written_by(loop) if is_in_memory(each)}
    for op in (*rest, *tail):
        if not is_warpgroup_multiply(op) and not (is_plain(op) or _is_local(op, stored)):
            raise _DeclinedError(op, f"{op.name} is more than arithmetic on registers")
    numbers, _ = producers_of(late, body)
    for op in numbers:
        if not is_pure(op):
            raise _DeclinedError(op, f"what comes a trip later takes the result of {op.name}")
    if stages < 2 and _read(late) & _read(rest + before) & _filled(loop):
        raise _DeclinedError(
            last, "it reads a tile with earlier ones, and one stage holds no trip but one"
        )
    # Buffers that the last multiplies read are written when these are done.
    written_here = {root_of(each) for each in written_by(*rest) if is_in_memory(each)}
    changed = {acc, *written_by(*tail), *(_read(lasts) & written_here)}
    quick = [op for op in made if not _is_long(op)]
    behind_ = behind(rest, quick, changed)
    if any(is_warpgroup_multiply(op) for op in behind_):
        raise _DeclinedError(last, "a multiply before it depends on its accumulator")
    beside = [op for op in rest if op not in behind_]
    ahead = _ahead(first, beside, behind_)
    return _Chain(
        tuple(body),
        first,
        last,
        late,
        tuple(before),
        tuple(ahead),
        tuple(beside),
        tuple(behind_),
    )


def _read(ops: Sequence[Operation]) -> set[SSAValue]:
    """The buffers and tensors that ops read."""
    return {root_of(value) for value in used_by(*ops) if is_in_memory(value)}


def _filled(loop: scf.ForOp) -> set[SSAValue]:
    """The buffers that a trip fills."""
    return {root_of(value) for value in written_by(loop) if is_in_memory(value)}


def _operands(gemm: GemmOp, body: Sequence[Operation]) -> list[Operation]:
    """The ops of a trip that make the register tiles which a multiply takes."""
    return [
        value.owner
        for value in (gemm.a, gemm.b)
        if isinstance(value.type, FragmentType) and value.owner in body
        if isinstance(value.owner, Operation)
    ]


def _is_long(made: Operation) -> bool:
    """Whether making an operand is worth doing beside a multiply: it is written in several places,
    or computed, and not only converted.
    """
    return isinstance(made, AllocFragmentOp) or _computes(made)


def _dependents(ops: Sequence[Operation], values: set[SSAValue]) -> list[Operation]:
    """The ops that touch some values, or what is made of them."""
    found: list[Operation] = []
    for op in ops:
        changed = written_by(op)
        if (used_by(op) | changed) & values:
            found.append(op)
            values |= {*op.results, *changed}
    return found


def _computes(made: Operation) -> bool:
    """Whether an op computes more than a conversion: that is worth doing beside a multiply."""
    if not isinstance(made, MapOp):
        return False
    body = [op for op in made.body.block.ops if not isinstance(op, arith.ConstantOp | YieldOp)]
    return any(op.name.startswith("math.") for op in body)


_PLAIN = {MapOp, ReduceOp, FillOp, ConvertOp, ExtractOp, AllocFragmentOp, scf.YieldOp}


def is_plain(op: Operation) -> bool:
    """Whether an op only computes, in registers of its own thread or warp."""
    kind = type(op)
    if kind in _PLAIN or is_pure(op):
        return True
    if isinstance(op, scf.IfOp):
        return all(is_plain(inner) for region in op.regions for inner in inside(region))
    if isinstance(op, CopyOp):
        return isinstance(op.source.type, FragmentType) and isinstance(
            op.destination.type, FragmentType
        )
    if isinstance(op, AnyOp):
        return op.local is not None if op.warps is None else op.warps.value.data == 1
    return False


def _is_local(op: Operation, stored: set[SSAValue]) -> bool:
    """Whether an op reads a tensor that the loop does not store to, or brings a register tile to
    memory, maybe to the buffer through which multiplies take it: `cute-synchronize` finds what that
    asks for.
    """
    if isinstance(op, LoadOp):
        return root_of(op.source) not in stored
    if not isinstance(op, CopyOp):
        return False
    source, target = op.source, op.destination
    if isinstance(target.type, FragmentType):
        return space_of(source) == "gmem" and root_of(source) not in stored
    return isinstance(source.type, FragmentType) or space_of(source) == "smem"


def behind(
    ops: Sequence[Operation], made: Sequence[Operation], touched: set[SSAValue]
) -> list[Operation]:
    """What touches the last multiply's operands, and what depends on that."""
    found: list[Operation] = []
    values = set(touched)
    read: set[SSAValue] = set()
    for op in ops:
        used = used_by(op)
        changed = written_by(op)
        if op in made or used & values or changed & read:
            found.append(op)
            values |= {*op.results, *changed}
            read |= used
    return found


def _ahead(
    first: GemmOp, beside: Sequence[Operation], behind_: Sequence[Operation]
) -> list[Operation]:
    """What is computed for rows or columns alone, without the first multiply's result: it can be
    while that is waited for.
    """
    found: list[Operation] = []
    changed, read = {first.acc}, set[SSAValue]()
    for op in (*behind_, *beside):
        used = used_by(op)
        mine = written_by(op)
        if op in beside and _is_narrow(op) and not (used | mine) & changed | mine & read:
            found.append(op)
        else:
            changed |= {*op.results, *mine}
            read |= used
    needed: set[Operation] = set()
    values: set[SSAValue] = set()
    for op in reversed(found):
        made = {*op.results, *written(op)}
        if isinstance(op, MapOp) or made & values:
            needed.add(op)
            values |= used_by(op)
    return [op for op in found if op in needed]


def _is_narrow(op: Operation) -> bool:
    """Whether an op computes scalars, or a register tile with one element for a row or column."""
    if isinstance(op, MapOp | AllocFragmentOp | FillOp):
        tile = op.fragment if isinstance(op, FillOp) else op.results[0]
        assert isinstance(tile.type, FragmentType)
        return 1 in tile.type.shape
    return not op.regions and is_pure(op)
