"""Steps of `cute-schedule-loops`: in a loop of chained multiplies, those of what is computed from
others of their trip come one trip later, beside what is computed for the next one.

Of warpgroup multiplies, the last of which sums over all trips, the last works beside other code:

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

Multiplies into tensor memory are issued one trip later, behind the first ones of the next:

    for j { s = q k[j]; p = f(s) (main); x = p v[j] }
    =>
    for j { s = q k[j] {0, 0}; p = f(s) (main); x = p v[j] {1, 1} }

One thread issues all of them: in the order of the program it would wait for `p` with the tensor
core idle, though `s` of the next trip asks for nothing that is still to come. Other roles keep the
order of the program, and so does each ring.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from xdsl.dialects import scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AllocTmemOp,
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
    UnpackOp,
)
from cutedialect.dialects.effects import (
    RMEM,
    Unit,
    effects_of,
    is_pure,
    space_of,
    used_by,
    written,
    written_by,
)
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.memory_views import root_of, roots_of
from cutedialect.passes.analysis.mma_choice import is_warpgroup_multiply
from cutedialect.passes.analysis.ring_edges import given_stages
from cutedialect.passes.analysis.role_plan import is_load
from cutedialect.passes.analysis.tensor_columns import ColumnPlan, column_plan
from cutedialect.passes.analysis.trips import (
    clear_place,
    inside,
    order_of,
    own_ops,
    producers_of,
    set_place,
    trip_of,
    wrong_order,
)
from cutedialect.passes.anchors import anchored
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import insert_after
from cutedialect.passes.schedule.loops_in_order import ONE_STAGE, dependence, loops_in_order
from cutedialect.passes.schedule.role_progress import passings_of, waits_for_itself

TURNS = "turns"
"""The attribute of a loop whose warpgroups issue their multiplies one after the other."""
# The order of a trip: up to the first multiply, the last one of the trip before, ...
_FIRST, _LAST, _AHEAD, _FIRST_DONE, _BESIDE, _LAST_DONE, _TAIL, _BEHIND = range(8)
# Stages of a ring of which one trip and the next one have each theirs.
_STAGES_OF_TWO_TRIPS = 2
_ONE_STAGE = f"a tile with earlier ones, and {ONE_STAGE}"


def schedule_chains(kernel: KernelOp, stages: int) -> None:
    """Give the ops of a kernel's loops of chained multiplies a stage and an order; the rings that
    other roles fill have so many stages.
    """
    for loop in loops_in_order(kernel):
        try:
            first, other = (
                _chain(own_ops(trip_of(loop, at)), loop, stages) for at in (True, False)
            )
        except _DeclinedError as declined:
            why = f"multiplies of two trips not overlapped: {declined}"
            remark("cute-schedule-loops", declined.op, why)
            continue
        if first is None or other is None or first.late != other.late:
            continue
        for chain in (first, other):
            for op in chain.ops:
                set_place(op, int(op in chain.late), chain.orders[op])
        wrong = wrong_order(other.ops)
        if wrong is not None:
            for op in {*first.ops, *other.ops}:
                clear_place(op)
            remark(
                "cute-schedule-loops",
                wrong[1],
                f"multiplies of two trips not overlapped: {dependence(wrong)}",
            )
            continue
        for gemm, stage, order in ((other.first, 0, _FIRST_DONE), (other.last, 1, _LAST_DONE)):
            complete = CompleteOp([gemm.acc])
            complete.attributes["role"] = gemm.attributes["role"]
            set_place(complete, stage, order)
            insert_after(gemm, complete)
        if kernel.choices.overlap == "turns":
            loop.attributes[TURNS] = UnitAttr()


class _DeclinedError(Exception):
    """Why a loop of several multiplies is not skewed, and the op that it is about."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(reason)
        self.op = op


@dataclass(frozen=True)
class _Chain:
    """The ops of a trip in program order, the orders of all, the last multiply of each group, and
    what comes a trip `late`: the last multiplies, and the tail that follows them in their own trip.
    """

    ops: Sequence[Operation]
    orders: Mapping[Operation, int]
    first: GemmOp
    last: GemmOp
    late: tuple[Operation, ...]


def _chain(body: list[Operation], loop: scf.ForOp, stages: int) -> _Chain | None:
    """The parts of a trip with chained multiplies; None for a loop with fewer than two.

    Raises `_DeclinedError` for a trip that cannot be taken apart.
    """
    gemms = [op for op in body if isinstance(op, GemmOp) and is_warpgroup_multiply(op)]
    firsts = [op for op in gemms if op.acc is gemms[0].acc]
    if len(gemms) < 2 or firsts[-1] is gemms[-1]:
        return None
    first, last, acc = firsts[-1], gemms[-1], gemms[-1].acc
    lasts = _checked_lasts(body, gemms, firsts)
    before = body[: body.index(first) + 1]
    tail = _dependents(body[body.index(last) + 1 :], {acc})
    late = (*lasts, *tail)
    made = [each for gemm in lasts for each in _operands(gemm, body)]
    if any(op in before for op in made):
        raise _DeclinedError(last, "its operands do not depend on the first multiply")
    rest = [op for op in body[len(before) :] if op not in late]
    stored = roots_of(written_by(loop))
    _check_late(body, rest, tail, late, stored)
    if stages < 2 and _read(late) & _read(rest + before) & stored:
        raise _DeclinedError(last, f"it reads {_ONE_STAGE}")
    # Buffers that the last multiplies read are written when these are done.
    changed = {acc, *written_by(*tail), *(_read(lasts) & roots_of(written_by(*rest)))}
    behind = _checked_behind(rest, made, changed, last)
    beside = [op for op in rest if op not in behind]
    ahead = _ahead(first, beside, behind)
    places = {
        _FIRST: before, _BESIDE: beside, _AHEAD: ahead, _BEHIND: behind, _LAST: lasts, _TAIL: tail,
    }  # fmt: skip
    orders = {op: place for place, ops in places.items() for op in ops}
    return _Chain(body, orders, first, last, late)


def _checked_lasts(
    body: Sequence[Operation], gemms: Sequence[GemmOp], firsts: Sequence[GemmOp]
) -> list[GemmOp]:
    """The multiplies into the last accumulator. Declines those of a trip that do not begin with
    the `firsts`, into the first accumulator, and end with these, and a last accumulator that does
    not live on, or is read before.
    """
    first, last, acc = firsts[-1], gemms[-1], gemms[-1].acc
    lasts = [op for op in gemms if op.acc is acc]
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
    if acc in used_by(*body[: body.index(first) + 1]):
        raise _DeclinedError(last, "its accumulator is touched before the first multiply")
    return lasts


def _checked_behind(
    rest: Sequence[Operation], made: Sequence[Operation], changed: set[SSAValue], last: GemmOp
) -> list[Operation]:
    """What has to wait for the last multiply. Declines where that is another one."""
    behind = _behind(rest, [op for op in made if not _is_long(op)], changed)
    if any(is_warpgroup_multiply(op) for op in behind):
        raise _DeclinedError(last, "a multiply before it depends on its accumulator")
    return behind


def _check_late(
    body: Sequence[Operation],
    rest: Sequence[Operation],
    tail: Sequence[Operation],
    late: Sequence[Operation],
    stored: set[SSAValue],
) -> None:
    """Decline ops that cannot stand beside a multiply at work, or come a trip later."""
    for op in (*rest, *tail):
        if not is_warpgroup_multiply(op) and not (_is_plain(op) or _is_local(op, stored)):
            raise _DeclinedError(op, f"{op.name} is more than arithmetic on registers")
    for op in producers_of(late, body)[0]:
        if not is_pure(op):
            raise _DeclinedError(op, f"what comes a trip later takes the result of {op.name}")


def _read(ops: Iterable[Operation]) -> set[SSAValue]:
    """The buffers and tensors that ops take."""
    return roots_of(used_by(*ops))


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
    or more is computed than a conversion.
    """
    if isinstance(made, MapOp):
        return any(op.name.startswith("math.") for op in made.body.block.ops)
    return isinstance(made, AllocFragmentOp)


def _dependents(ops: Sequence[Operation], values: set[SSAValue]) -> list[Operation]:
    """The ops that touch some values, or what is made of them."""
    found: list[Operation] = []
    for op in ops:
        changed = written_by(op)
        if (used_by(op) | changed) & values:
            found.append(op)
            values |= {*op.results, *changed}
    return found


_PLAIN = {MapOp, ReduceOp, FillOp, ConvertOp, ExtractOp, UnpackOp, AllocFragmentOp, scf.YieldOp}


def _is_plain(op: Operation) -> bool:
    """Whether an op only computes, in registers of its own thread or warp."""
    kind = type(op)
    if kind in _PLAIN or is_pure(op):
        return True
    if isinstance(op, scf.IfOp):
        return all(_is_plain(inner) for region in op.regions for inner in inside(region))
    if isinstance(op, CopyOp):
        return space_of(op.source) == space_of(op.destination) == RMEM
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
    source = op.source
    if space_of(op.destination) == RMEM:
        return space_of(source) == "gmem" and root_of(source) not in stored
    return space_of(source) in (RMEM, "smem")


def _behind(
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
    first: GemmOp, beside: Sequence[Operation], behind: Sequence[Operation]
) -> list[Operation]:
    """What is computed for rows or columns alone, without the first multiply's result: it can be
    while that is waited for.
    """
    found: list[Operation] = []
    changed, read = {first.acc}, set[SSAValue]()
    for op in (*behind, *beside):
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


@anchored(AllocTmemOp)
def schedule_tensor_chains(kernel: KernelOp, stages: int) -> None:
    """Give the multiplies of a kernel's loops a stage and an order; the rings that loads fill have
    so many stages.
    """
    plan = column_plan(kernel)
    for loop in [op for op in ops_of(kernel, scf.ForOp) if not op.iter_args]:
        block = loop.body.block
        gemms = [op for op in block.ops if isinstance(op, GemmOp) and _is_issued(op)]
        late = _late(block, gemms)
        if not late or len(late) == len(gemms) or any(order_of(op) is not None for op in gemms):
            continue
        shared = _stages_shared(kernel, loop, gemms, late, stages)
        why = _declined(loop, gemms, shared)
        if why:
            remark("cute-schedule-loops", late[0], f"multiplies not issued ahead: {why}")
            continue
        waiting, passings = None, passings_of(kernel, stages)
        for least in _leasts(plan, shared):
            _issue_ahead(plan, gemms, late, least)
            waiting = waits_for_itself(block, passings)
            if waiting is None:
                break
        if waiting is not None:
            for op in gemms:
                clear_place(op)
            remark(
                "cute-schedule-loops",
                late[0],
                "multiplies not issued ahead: the next trip's would wait until this trip's tile of "
                f"{waiting.shown} has been read, behind what waits for them, and there is no "
                f"{'second' if waiting.stages == 1 else 'further'} stage of it",
            )


def _leasts(plan: ColumnPlan, shared: float) -> Sequence[int]:
    """How many late multiplies are to stand in front of all others of the next trip, to be tried in
    turn: one where it may free columns, and where both read tiles of two stages. The next load
    would wait for the late ones then, and these behind the next trip's first one for it.
    """
    if shared <= _STAGES_OF_TWO_TRIPS:
        return (1,)
    return (0, 1) if plan.is_bound else (0,)


def _issue_ahead(plan: ColumnPlan, gemms: list[GemmOp], late: list[GemmOp], least: int) -> None:
    """Give some multiplies places behind those of the next trip that do not wait for threads, but
    `least` of them in front of all of those.
    """
    rings: dict[SSAValue, int] = {each.result: count for each, count in plan.stages.items()}
    # The columns of a product that has one stage are free when what lies over them has been
    # multiplied: that comes first. Products keep their order, as rings do.
    passed, behind = 0, least
    apart = 2 if least or plan.is_bound else 0
    for op in gemms:
        if op in late:
            set_place(op, 1, apart * passed + 1)
            passed += 1
            continue
        if plan.is_bound:
            over = {each.result for each, under in plan.operands.items() if op.acc is under.result}
            taken = [roots_of((each.a, each.b)) for each in late]
            readers = [at + 1 for at, tiles in enumerate(taken) if over & tiles]
            if any(op.acc is under.result for under in plan.products.values()):
                # What lies over its columns is read meanwhile, beside all other multiplies.
                readers.append(len(late))
            behind = max(behind, passed, *(readers if rings[op.acc] == 1 else ()))
        set_place(op, 0, 2 * behind)


def _is_issued(op: Operation) -> bool:
    return isinstance(op, GemmOp) and effects_of(op).unit is Unit.TCGEN05


def _late(block: Block, gemms: list[GemmOp]) -> list[GemmOp]:
    """The multiplies of what threads write to shared or tensor memory in the same trip, and those
    that add to the same accumulators: they have one in turn.
    """
    others = [op for op in block.ops if not is_load(op) and not _is_issued(op)]
    written_here = roots_of(written_by(*others))
    late = [op for op in gemms if not written_here.isdisjoint(roots_of((op.a, op.b)))]
    accumulators = {op.acc for op in late}
    return [op for op in gemms if op.acc in accumulators]


def _stages_shared(
    kernel: KernelOp, loop: scf.ForOp, gemms: list[GemmOp], late: list[GemmOp], stages: int
) -> float:
    """The fewest stages of a buffer of which late multiplies read a trip's tile that others have
    read; inf where there is none.
    """
    early = [op for op in gemms if op not in late]
    read = _read(early) & _read(late) & roots_of(written_by(loop))
    counts = (
        count
        for edge, count in given_stages(kernel, stages).items()
        for alloc in edge.buffers
        if alloc.result in read
    )
    return min(counts, default=inf)


def _declined(loop: scf.ForOp, gemms: list[GemmOp], shared: float) -> str:
    """Why the order of the program stays, where late multiplies read tiles of so many stages with
    others; empty where it does not have to.
    """
    if any(_is_issued(op) and op not in gemms for op in walk(loop)):
        return "others stand in loops or branches of the trip"
    return f"they read {_ONE_STAGE}" if shared < _STAGES_OF_TWO_TRIPS else ""
