"""Warps of a CTA in time: each runs the structured code of `ptx.kernel` on what is known before a
launch (extents, indices of tiles, stages and phases), books units of the SM for what it issues, and
waits for mbarriers, groups and other warps as the code says. Numbers of tiles are never computed:
a branch on one is not taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Block, Operation

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import ptx
from cutedialect.dialects.ptx import entries
from cutedialect.dialects.ptx.mnemonics import tmem_registers, vector_length
from cutedialect.dialects.ptx.scalar import ScalarOp

from .instructions import work_of
from .integers import evaluate
from .processor import QUARTERS, Mbarrier
from .warp import Warp

_GROUP = 4
# Boxes of a copy of rows that a program numbers.
_GATHERED = 4
# Columns of a swizzled line of K in bytes: the depth of one multiply of any type.
_DEPTH_BYTES = 32
# Cycles of a unit that a warp takes before others have their turn, and turns of one op at most.
_TURN, _MOST_TURNS = 32.0, 16
# The part of a warp's arithmetic that finds its operands while special functions are at work.
_BESIDE = 0.9
# Bytes of the answer to an attempt to cancel a launch.
_RESPONSE = 16.0
Wait = tuple[Mbarrier, int, str]
Run = Generator[Wait | None, None, None]

Step = Callable[[Warp], None]
_CODE: dict[Block, list[tuple[int, Any]]] = {}
_SCALAR, _DO, _WAIT, _FOR, _IF, _REPEAT, _TURNS = range(7)


def run(warp: Warp, block: Block) -> Run:
    """Run a block; yields a barrier to wait for, or None after work that takes time."""
    for kind, step in _code(block):
        if kind == _SCALAR:
            step(warp)
        elif kind == _DO:
            step(warp)
            yield None
        elif kind in (_WAIT, _TURNS) and warp.cta.survey is not None:
            continue
        elif kind == _WAIT:
            yield step(warp)
        elif kind == _TURNS:
            yield from step(warp)
        elif kind == _IF:
            taken = warp.known.get(step.pred)
            inner = step.then.block if taken else step.otherwise.block
            warp.issue(1)
            if inner.first_op is not None:
                yield from run(warp, inner)
        elif kind == _FOR:
            yield from _counted(warp, step)
        else:
            yield from _repeated(warp, step)


def _counted(warp: Warp, step: Any) -> Run:
    """The trips of a loop, one of them for all in a survey; none where nothing is known of them."""
    low, high = warp.known.get(step.low), warp.known.get(step.high)
    by = step.step.value.data if step.by is None else warp.known.get(step.by)
    if low is None or high is None or not by:
        return
    body, trips = step.body.block, range(int(low), int(high), int(by))
    survey = warp.cta.survey
    if survey is not None and trips:
        scale, survey.scale = survey.scale, survey.scale * len(trips)
        warp.known[body.args[0]] = trips[0]
        yield from run(warp, body)
        survey.scale = scale
        return
    for index in trips:
        warp.known[body.args[0]] = index
        warp.issue(3)
        yield from run(warp, body)


def _repeated(warp: Warp, step: Any) -> Run:
    """A loop that asks behind each trip; in a survey each outer one counts its bytes apart."""
    body = step.body.block
    again = body.last_op
    survey = warp.cta.survey
    outer = survey if survey is not None and not survey.is_inside else None
    while True:
        if outer is not None:
            outer.is_inside = True
            outer.bytes.append(0.0)
        yield from run(warp, body)
        warp.issue(2)
        if not warp.known.get(again.pred):
            break
    if outer is not None:
        outer.is_inside = False


def _code(block: Block) -> list[tuple[int, Any]]:
    found = _CODE.get(block)
    if found is None:
        found = _CODE[block] = [step for op in block.ops if (step := _step(op)) is not None]
    return found


def forget() -> None:
    """Drop what was prepared of kernels."""
    _CODE.clear()
    _WORK.clear()


def _step(op: Operation) -> tuple[int, Any] | None:
    if isinstance(op, ScalarOp):
        return _SCALAR, _scalar(op)
    if isinstance(op, ptx.ForOp):
        return _FOR, op
    if isinstance(op, ptx.IfOp):
        return _IF, op
    if isinstance(op, ptx.RepeatOp):
        return _REPEAT, op
    if isinstance(op, ptx.ForeachOp):
        return _TURNS, lambda warp: _foreach(warp, op)
    if isinstance(op, ptx.MbarrierWaitOp):
        return _WAIT, lambda warp: _phase(warp, op)
    if isinstance(op, ptx.BarSyncOp | ptx.BarAnyOp):
        return _WAIT, lambda warp: _meet(warp, op)
    handler = _HANDLERS.get(type(op))
    if handler is None:
        return None
    kind = _SCALAR if type(op) in _PLAIN else _DO
    return kind, lambda warp: handler(warp, op)


def _scalar(op: ScalarOp) -> Step:
    family, kind, args, results = op.family, op.modifiers.data, list(op.args), list(op.res)
    result = results[0]

    def step(warp: Warp) -> None:
        known = warp.known
        found = evaluate(family, kind, [known.get(each) for each in args])
        known[result] = found
        if len(results) > 1:
            known[results[1]] = None if found is None else not found
        warp.issue(1)
        warp.time += warp.device.pace

    return step


def _phase(warp: Warp, op: ptx.MbarrierWaitOp) -> Wait | None:
    found, parity = warp.barrier(op.addr, op.offset), warp.value(op.parity)
    warp.issue(4)
    if found is None or parity is None:
        return None
    return found, int(parity), "phases"


def _meet(warp: Warp, op: Any) -> Wait | None:
    """Arrive at a named barrier, and wait for the others."""
    warp.issue(2)
    number = warp.value(op.register) if op.register is not None else op.id.value.data
    if number is None:
        return None
    threads = getattr(op, "threads", None)
    count = warp.cta.warps if threads is None else threads.value.data // WARP_SIZE
    found = warp.cta.named.setdefault(int(number), Mbarrier(count, warp.processor.woken))
    parity = len(found.ends) & 1
    found.arrive(warp.time)
    return found, parity, "barriers"


# Instructions


def _imm(warp: Warp, op: ptx.ImmOp) -> None:
    value = op.value
    warp.known[op.res] = None if isinstance(value, FloatAttr) else value.value.data  # pyright: ignore


def _special(warp: Warp, op: ptx.SpecialOp) -> None:
    name = op.register.data
    values = {"tid.x": WARP_SIZE * warp.index, "laneid": 0, "warpid": warp.index}
    warp.known[op.res] = values.get(name, warp.cta.special.get(name, 0))


def _known_zero(warp: Warp, op: Operation) -> None:
    warp.known[op.results[0]] = 0


def _elect(warp: Warp, op: ptx.ElectOp) -> None:
    warp.known[op.results[0]] = True
    warp.issue(2)


def _shuffle(warp: Warp, op: ptx.ShflOp) -> None:
    warp.known[op.results[0]] = warp.value(op.value) if "idx" in op.modifiers.data else None
    warp.time = max(warp.time, warp.serve("shuffle", warp.device.heavy["shuffle"])) + 20


def _unknown(warp: Warp, op: Operation) -> None:
    for result in op.results:
        warp.known[result] = None
    warp.issue(1)


def _get(warp: Warp, op: ptx.GetOp) -> None:
    held = warp.arrays.get(op.data)
    warp.known[op.res] = None if held is None else held[op.index.value.data]


def _set(warp: Warp, op: ptx.SetOp) -> None:
    held = warp.arrays.setdefault(op.data, [None] * op.data.type.count)  # pyright: ignore
    held[op.index.value.data] = warp.value(op.value)


def _fill(warp: Warp, op: ptx.FillOp) -> None:
    count = op.data.type.count  # pyright: ignore[reportAttributeAccessIssue]
    warp.arrays[op.data] = [warp.value(op.value)] * count
    warp.issue(count)


def _foreach(warp: Warp, op: ptx.ForeachOp) -> Run:
    """Warps of a quarter take turns, some instructions at a time."""
    work = _WORK.get(op)
    if work is None:
        work = _WORK[op] = work_of(op.body.block, op.count.value.data, warp.device)
    warp.wait_for(op.sources)
    for target in op.targets:
        warp.arrays.pop(target, None)
    if not work.slots:
        return
    units = [(unit, amount * warp.crowding(unit)) for unit, amount in work.units]
    longest = max((amount for _, amount in units), default=work.slots)
    parts = max(1, min(_MOST_TURNS, round(longest / _TURN)))
    first, is_special = warp.time, any(unit == "sfu" for unit, _ in units)
    # Elements are independent, so that what follows special functions begins before these end.
    early = 0.0 if is_special else min(warp.beside, work.chain * _BESIDE)
    for _ in range(parts):
        begin = warp.time
        ends = [warp.serve(unit, amount / parts, begin) for unit, amount in units]
        ends.append(warp.serve("issue", work.slots / parts, begin))
        warp.time = max(*ends, begin + work.chain / parts) - early / parts
        yield None
    if is_special:
        warp.beside = max(0.0, warp.time - first - work.slots)
    else:
        warp.beside -= early


_WORK: dict[Operation, Any] = {}


def _init(warp: Warp, op: ptx.MbarrierInitOp) -> None:
    at = warp.value(op.addr)
    if at is not None:
        place = int(at) + op.offset.value.data
        warp.cta.mbarriers.setdefault(place, Mbarrier(op.count.value.data, warp.processor.woken))
    warp.issue(2)


def _arrive(warp: Warp, op: ptx.MbarrierArriveOp) -> None:
    warp.issue(2)
    found = warp.barrier(op.addr, op.offset)
    if found is None or not warp.holds(op.pred):
        return
    count: float = op.count.value.data
    if op.cluster is not None:
        # Other CTAs arrive here as often as this one does there.
        others = max(1, warp.cta.warps - _GROUP)
        if warp.cta.is_paired:
            # Both CTAs of a pair arrive in the first one, of whichever role.
            others = found.count / 2
        if warp.has_response:
            # All warps that were told of an item, of which the first CTA has the most.
            others = -(-found.count // warp.cta.special["cluster_nctarank"])
        count = max(count, found.count / others)
        warp.has_response = False
    found.arrive(warp.time, count)


def _expect(warp: Warp, op: ptx.MbarrierExpectTxOp) -> None:
    warp.issue(2)
    found = warp.barrier(op.addr, op.offset)
    if found is not None and warp.holds(op.pred):
        found.expect(op.bytes.value.data)
        found.arrive(warp.time)


def _tma_load(warp: Warp, op: ptx.TmaLoadOp) -> None:
    warp.issue(6)
    box = warp.cta.arguments.get(op.map)
    if op.gathers is not None and box is not None:
        box *= _GATHERED
    if warp.cta.survey is not None and box is not None and warp.holds(op.pred):
        warp.cta.survey.load(box)
    found = warp.barrier(op.barrier, op.barrier_offset)
    if found is None or box is None or not warp.holds(op.pred):
        return
    copies = 1
    if op.multicast is not None:
        mask = warp.value(op.multicast)
        copies = max(1, bin(int(mask or 1) & 0xFFFF).count("1"))
    # What others ask for on behalf of all comes by the same port.
    end = warp.shared("port", box * copies / warp.device.l2_port, warp.arrives(box, tensor=op.map))
    end = warp.moved("fill", box * copies, end)
    # The other CTA of a pair loads as much, and signals here too.
    found.receive(end, box * copies * (2 if op.pair is not None else 1))


def _bulk_load(warp: Warp, op: ptx.BulkLoadOp) -> None:
    warp.issue(6)
    found = warp.barrier(op.barrier, op.barrier_offset)
    size = op.bytes.value.data if op.bytes is not None else warp.value(op.size)
    if found is not None and size is not None and warp.holds(op.pred):
        found.receive(warp.moved("fill", float(size), warp.arrives(float(size))), float(size))


def _tma_store(warp: Warp, op: ptx.TmaStoreOp) -> None:
    warp.issue(6)
    box = warp.cta.arguments.get(op.map)
    if box is not None and warp.holds(op.pred):
        warp.stored(box)


def _bulk_store(warp: Warp, op: ptx.BulkStoreOp) -> None:
    warp.issue(6)
    size = op.bytes.value.data if op.bytes is not None else warp.value(op.size)
    if size is not None and warp.holds(op.pred):
        warp.stored(float(size))


def _bulk_commit(warp: Warp, op: Operation) -> None:
    warp.issue(1)
    warp.stores.append((warp.last_read, warp.last_store))


def _bulk_wait(warp: Warp, op: ptx.BulkWaitOp) -> None:
    warp.issue(1)
    keep = op.pending.value.data
    done, warp.stores = (
        warp.stores[: len(warp.stores) - keep],
        warp.stores[-keep or len(warp.stores) :],
    )
    warp.until(max((read if op.read else there for read, there in done), default=0.0), "stores")


def _wgmma(warp: Warp, op: ptx.WgmmaOp) -> None:
    """Each of four warps has the tensor core of its quarter multiply 16 rows of 64. A warp that
    gives A from its registers goes on when the first of its multiplies begins.
    """
    found = re.search(r"m64n(\d+)k(\d+)", op.modifiers.data)
    assert found is not None
    count, columns = op.count, int(found[1])
    by_registers = isinstance(op.lhs.type, ptx.RegsType)
    warp.issue(count * 2)
    # A line of 32 bytes of depth is one multiply: 16 of 16 bits, 32 of 8 bits, 8 of 32.
    share = warp.device.register_share if by_registers else warp.device.tensor_share
    cycles = 64 * columns * 16 / warp.device.tensor / share * count
    lines = columns + (0 if by_registers else 64)
    begin = max(warp.time, warp.last_multiply)
    shared = warp.moved("shared", lines * _DEPTH_BYTES * count / QUARTERS, begin)
    end = warp.serve("tensor", cycles, begin)
    warp.last_multiply = max(end, shared)
    if by_registers:
        warp.until(end - cycles, "operands")


def _wgmma_commit(warp: Warp, op: Operation) -> None:
    warp.issue(1)
    warp.multiplies.append(warp.last_multiply + warp.device.multiply_latency)


def _wgmma_wait(warp: Warp, op: ptx.WgmmaWaitOp) -> None:
    warp.issue(1)
    keep = op.pending.value.data
    at = max(0, len(warp.multiplies) - keep)
    done, warp.multiplies = warp.multiplies[:at], warp.multiplies[at:]
    warp.until(max(done, default=0.0), "multiplies")


def _mma(warp: Warp, op: ptx.MmaOp) -> None:
    found = re.search(r"m(\d+)n(\d+)k(\d+)", op.modifiers.data)
    assert found is not None
    m, n, k = map(int, found.groups())
    count = len(entries(op.c))
    bits = 8 if re.search(r"e4m3|e5m2|\bs8|\bu8", op.modifiers.data) else 16
    bits = 32 if "tf32" in op.modifiers.data else 64 if "f64" in op.modifiers.data else bits
    warp.wait_for((op.lhs, op.rhs))
    warp.issue(count)
    # `mma.sync` reaches some five eighths of the rate of a warpgroup's multiplies.
    rate = warp.device.tensor / QUARTERS * 16 / bits * 0.62
    end = warp.serve("tensor", m * n * k * count / rate)
    warp.ready[op.acc] = end + 20
    warp.time = max(warp.time, end - 64)


def _tcgen05(warp: Warp, op: ptx.Tcgen05MmaOp) -> None:
    descriptor = op.idesc.value.data
    columns, rows = (descriptor >> 17 & 63) << 3, (descriptor >> 24 & 31) << 4
    group = 2 if "cta_group::2" in op.modifiers.data else 1
    count = len(entries(op.d))
    warp.issue(2 * count)
    cycles = max(128, rows // group) * columns * 16 / warp.device.tensor * count
    lines = columns / group + (0 if op.lhs.type == ptx.reg("b32") else rows / group)
    begin = max(warp.time, warp.last_multiply)
    shared = warp.moved("shared", lines * _DEPTH_BYTES * count, begin)
    warp.last_multiply = max(warp.shared("tensor", cycles, begin), shared)


def _tmem_copy(warp: Warp, op: ptx.TmemCopyOp) -> None:
    """What the tensor core reads of shared memory between its multiplies."""
    found = re.search(r"(\d+)x(\d+)b", op.modifiers.data)
    assert found is not None
    lanes, bits = map(int, found.groups())
    warp.issue(1)
    begin = max(warp.time, warp.last_multiply)
    warp.last_multiply = max(begin, warp.moved("shared", lanes * bits / 8, begin))


def _commit(warp: Warp, op: ptx.Tcgen05CommitOp) -> None:
    warp.issue(2)
    found = warp.barrier(op.addr, op.offset)
    if found is not None and warp.holds(op.pred):
        # All CTAs of a cluster that commit to it do so alike.
        found.arrive(max(warp.time, warp.last_multiply) + warp.device.multiply_latency, found.count)


def _tmem(warp: Warp, op: Any) -> None:
    count = len(entries(op.registers)) * tmem_registers(op.modifiers.data)
    warp.wait_for((op.array,))
    warp.issue(len(entries(op.registers)))
    warp.tensor_memory = warp.serve("tensor memory", float(count)) + warp.device.shared


def _tmem_wait(warp: Warp, op: Operation) -> None:
    warp.issue(1)
    warp.until(warp.tensor_memory, "tensor memory")


def _vector(op: Any) -> int:
    """Bytes that a warp's instruction of a table op moves."""
    modifiers = op.modifiers.data
    length = vector_length(f"{op.name.removeprefix('ptx.')}.{modifiers}")
    bits = re.search(r"[bfsu](8|16|32|64)(x2)?$", modifiers)
    return WARP_SIZE * length * (int(bits[1]) // 8 if bits else 4)


def _load(warp: Warp, op: ptx.LdOp) -> None:
    count, size = op.count, _vector(op)
    warp.issue(count)
    if "global" in op.modifiers.data:
        warp.ready[op.data] = warp.arrives(count * size, warp.moved("l1", count * size))
    else:
        warp.ready[op.data] = warp.moved("shared", count * size) + warp.device.shared


def _store(warp: Warp, op: Any) -> None:
    count, size = op.count, _vector(op)
    warp.wait_for((op.data,))
    warp.issue(count)
    if "global" in op.modifiers.data:
        warp.moved("l2", count * size, warp.moved("l1", count * size))
    else:
        warp.until(warp.moved("shared", count * size), "shared memory")


def _matrix(warp: Warp, op: Any) -> None:
    count = op.count
    size = 128 * (4 if ".x4" in op.modifiers.data else 2 if ".x2" in op.modifiers.data else 1)
    warp.wait_for((op.data,))
    warp.issue(count)
    end = warp.moved("shared", count * size)
    if isinstance(op, ptx.LdMatrixOp):
        warp.ready[op.data] = end + warp.device.shared


def _copy_async(warp: Warp, op: ptx.CpAsyncOp) -> None:
    count = len(entries(op.dst_base))
    amount = float(count * op.bytes.value.data * WARP_SIZE)
    warp.issue(count)
    if warp.cta.survey is not None:
        warp.cta.survey.load(amount)
    end = warp.moved("fill", amount, warp.arrives(amount, warp.moved("l1", amount)))
    warp.last_copy = max(warp.last_copy, end)


def _copy_commit(warp: Warp, op: Operation) -> None:
    warp.issue(1)
    warp.copies.append(warp.last_copy)


def _copy_wait(warp: Warp, op: ptx.CpAsyncWaitOp) -> None:
    warp.issue(1)
    at = max(0, len(warp.copies) - op.pending.value.data)
    done, warp.copies = warp.copies[:at], warp.copies[at:]
    warp.until(max(done, default=0.0), "copies")


def _copy_arrive(warp: Warp, op: ptx.CpAsyncMbarrierArriveOp) -> None:
    warp.issue(1)
    found = warp.barrier(op.addr, op.offset)
    if found is not None:
        found.arrive(max(warp.time, warp.last_copy), WARP_SIZE)


def _scalar_load(warp: Warp, op: ptx.LdScalarOp) -> None:
    """Of shared memory: the number that a role has left there, or where tensor memory begins."""
    is_shared, base = "shared" in op.modifiers.data, warp.value(op.base)
    found = None
    survey = warp.cta.survey
    if is_shared and survey is not None:
        item = survey.next()
        found = survey.total if item is None else item
    elif is_shared and base is not None:
        address = int(base) + op.offset.value.data
        found = warp.cta.numbers.get(address, 0)
        if address in warp.cta.slots:
            warp.cta.claims.begin(warp.index, warp.time)
    warp.known[op.results[0]] = found
    warp.issue(1)
    warp.until(warp.time + (warp.device.shared if is_shared else warp.device.l2), "scalars")


def _scalar_store(warp: Warp, op: ptx.StScalarOp) -> None:
    base = warp.value(op.base)
    if "shared" in op.modifiers.data and base is not None and warp.holds(op.pred):
        address = int(base) + op.offset.value.data
        warp.cta.numbers[address] = warp.value(op.value)
        if warp.cta.is_claiming:
            warp.cta.slots.add(address)
            warp.cta.is_claiming = False
    warp.issue(1)


def _atomic(warp: Warp, op: ptx.AtomOp) -> None:
    """A claim of work. Of other atomics nothing is known."""
    found = None
    if ".inc" in op.modifiers.data and "global" in op.modifiers.data:
        last = warp.value(op.values[0])
        ctas = warp.cta.special["nctaid.x"]
        total = None if last is None else int(last) + 1
        survey = warp.cta.survey
        if survey is not None:
            survey.total = total
        item = warp.cta.claims.claim(warp.time, total) if survey is None else survey.next()
        found = None if total is None else (total if item is None else item) - ctas
        warp.cta.is_claiming = True
    warp.known[op.res] = found
    warp.issue(1)
    warp.until(warp.time + warp.device.l2, "scalars")


def _cancel(warp: Warp, op: ptx.TryCancelOp) -> None:
    """The response names the next work item that no CTA has begun, of those that come in turns."""
    warp.issue(4)
    base, found = warp.value(op.addr), warp.barrier(op.barrier, op.barrier_offset)
    if base is None or found is None:
        return
    total = warp.cta.special["nctaid.x"]
    if warp.cta.survey is not None:
        warp.cta.survey.total = total
    item = warp.cta.claims.claim(warp.time, total)
    warp.cta.numbers[int(base) + op.offset.value.data] = item
    found.receive(warp.time + warp.device.l2, _RESPONSE)


def _response(warp: Warp, op: ptx.QueryCancelOp) -> None:
    base = warp.value(op.addr)
    if warp.cta.survey is not None:
        found = warp.cta.survey.next()
    else:
        found = None if base is None else warp.cta.numbers.get(int(base) + op.offset.value.data)
    warp.known[op.res] = warp.value(op.otherwise) if found is None else found
    warp.has_response = True
    warp.cta.claims.begin(warp.index, warp.time)
    warp.issue(2)
    warp.until(warp.time + warp.device.shared, "scalars")


def _fence(warp: Warp, op: ptx.FenceOp) -> None:
    warp.issue(1)
    is_far = any(each in op.modifiers.data for each in ("gpu", "sys"))
    warp.until(warp.time + (warp.device.l2 if is_far else 15), "fences")


def _cluster(warp: Warp, op: Operation) -> None:
    warp.issue(1)
    warp.until(warp.time + 150, "clusters")


def _plain(warp: Warp, op: Operation) -> None:
    warp.issue(1)


def _mapa(warp: Warp, op: ptx.MapaOp) -> None:
    """The address in another CTA: here the same one in this CTA, none of a CTA that is surely
    another one.
    """
    rank = warp.value(op.rank)
    own = warp.cta.special.get("cluster_ctarank", 0)
    warp.known[op.results[0]] = warp.value(op.addr) if rank in (None, own) else None
    warp.issue(1)


_HANDLERS: dict[type[Operation], Any] = {
    ptx.ImmOp: _imm,
    ptx.SpecialOp: _special,
    ptx.SmemBaseOp: _known_zero,
    ptx.ElectOp: _elect,
    ptx.ShflOp: _shuffle,
    ptx.VoteOp: _unknown,
    ptx.UnpackOp: _unknown,
    ptx.PackOp: _unknown,
    ptx.GetOp: _get,
    ptx.SetOp: _set,
    ptx.FillOp: _fill,
    ptx.MbarrierInitOp: _init,
    ptx.MbarrierArriveOp: _arrive,
    ptx.MbarrierExpectTxOp: _expect,
    ptx.TmaLoadOp: _tma_load,
    ptx.BulkLoadOp: _bulk_load,
    ptx.TmaStoreOp: _tma_store,
    ptx.BulkStoreOp: _bulk_store,
    ptx.BulkCommitOp: _bulk_commit,
    ptx.BulkWaitOp: _bulk_wait,
    ptx.WgmmaOp: _wgmma,
    ptx.WgmmaCommitOp: _wgmma_commit,
    ptx.WgmmaWaitOp: _wgmma_wait,
    ptx.WgmmaFenceOp: _plain,
    ptx.MmaOp: _mma,
    ptx.Tcgen05MmaOp: _tcgen05,
    ptx.Tcgen05CommitOp: _commit,
    ptx.TmemCopyOp: _tmem_copy,
    ptx.TmemLdOp: _tmem,
    ptx.TmemStOp: _tmem,
    ptx.TmemWaitLdOp: _tmem_wait,
    ptx.TmemWaitStOp: _tmem_wait,
    ptx.LdOp: _load,
    ptx.StOp: _store,
    ptx.RedOp: _store,
    ptx.LdMatrixOp: _matrix,
    ptx.StMatrixOp: _matrix,
    ptx.CpAsyncOp: _copy_async,
    ptx.CpAsyncCommitOp: _copy_commit,
    ptx.CpAsyncWaitOp: _copy_wait,
    ptx.CpAsyncMbarrierArriveOp: _copy_arrive,
    ptx.LdScalarOp: _scalar_load,
    ptx.AtomOp: _atomic,
    ptx.TryCancelOp: _cancel,
    ptx.QueryCancelOp: _response,
    ptx.FenceOp: _fence,
    ptx.MapaOp: _mapa,
    ptx.ClusterArriveOp: _plain,
    ptx.ClusterWaitOp: _cluster,
    ptx.BarWarpSyncOp: _plain,
    ptx.BarArriveOp: lambda warp, op: _meet(warp, op),
    ptx.SetMaxRegsOp: _plain,
    ptx.StScalarOp: _scalar_store,
}
_PLAIN = {
    ptx.ImmOp, ptx.SpecialOp, ptx.SmemBaseOp, ptx.GetOp, ptx.SetOp, ptx.ElectOp, ptx.VoteOp,
    ptx.UnpackOp, ptx.PackOp, ptx.MapaOp, ptx.WgmmaFenceOp, ptx.BarWarpSyncOp, ptx.SetMaxRegsOp,
}  # fmt: skip
