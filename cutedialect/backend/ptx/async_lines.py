"""Lines of barriers, fences, asynchronous copies, `wgmma`, `tcgen05`, clusters and launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.ptx import (
    BarAnyOp,
    BarArriveOp,
    BarSyncOp,
    BarWarpSyncOp,
    BulkCommitOp,
    BulkLoadOp,
    BulkStoreOp,
    BulkWaitOp,
    ClusterArriveOp,
    ClusterWaitOp,
    CpAsyncCommitOp,
    CpAsyncMbarrierArriveOp,
    CpAsyncWaitOp,
    ElectOp,
    FenceOp,
    FenceTensorMapOp,
    GriddepLaunchOp,
    GriddepWaitOp,
    MapaOp,
    MbarrierArriveOp,
    MbarrierExpectTxOp,
    MbarrierInitOp,
    MbarrierInvalOp,
    MbarrierWaitOp,
    PrefetchTensorMapOp,
    QueryCancelOp,
    RegsType,
    SetMaxRegsOp,
    SmemDescOp,
    SmemDescType,
    StAsyncOp,
    Tcgen05CommitOp,
    Tcgen05FenceOp,
    Tcgen05MmaOp,
    TmaLoadOp,
    TmaPrefetchOp,
    TmaStoreOp,
    TmemAllocOp,
    TmemCopyOp,
    TmemDeallocOp,
    TmemLdOp,
    TmemRelinquishOp,
    TmemStOp,
    TmemWaitLdOp,
    TmemWaitStOp,
    TryCancelOp,
    WgmmaCommitOp,
    WgmmaFenceOp,
    WgmmaOp,
    WgmmaWaitOp,
    entries,
)
from cutedialect.dialects.ptx.mnemonics import tmem_registers

from .body import Body, address, mask


def _bar(body: Body, op: BarSyncOp | BarArriveOp) -> None:
    barrier = str(op.number) if op.register is None else body.values[op.register]
    threads = f", {op.threads.value.data}" if op.threads is not None else ""
    body.lines.append(f"\t{op.name[len('ptx.') :]} {barrier}{threads};")


def _bar_any(body: Body, op: BarAnyOp) -> None:
    pred, barrier = body.values[op.pred], body.values[op.register]
    threads = op.threads.value.data
    body.lines.append(f"\tbar.red.or.pred {body.define(op.res)}, {barrier}, {threads}, {pred};")


def _bar_warp_sync(body: Body, op: BarWarpSyncOp) -> None:
    body.lines.append(f"\tbar.warp.sync {mask(body.values[op.members])};")


def _fence(body: Body, op: FenceOp) -> None:
    body.lines.append(f"\tfence.{op.modifiers.data};")


def _cp_async_wait(body: Body, op: CpAsyncWaitOp) -> None:
    body.lines.append(f"\tcp.async.wait_group {op.pending.value.data};")


def _fixed(line: str) -> Callable[[Body, Operation], None]:
    def fixed(body: Body, op: Operation) -> None:
        body.lines.append(f"\t{line};")

    return fixed


def _mbarrier_init(body: Body, op: MbarrierInitOp) -> None:
    at = address(body.register(op.addr), op.offset.value.data)
    body.lines.append(f"\tmbarrier.init.shared::cta.b64 {at}, {op.count.value.data};")


def _mbarrier_inval(body: Body, op: MbarrierInvalOp) -> None:
    at = address(body.register(op.addr), op.offset.value.data)
    body.lines.append(f"\tmbarrier.inval.shared::cta.b64 {at};")


def _mbarrier_arrive(body: Body, op: MbarrierArriveOp) -> None:
    at = address(body.register(op.addr), op.offset.value.data)
    space = "cta" if op.cluster is None else "cluster"
    count = op.count.value.data
    ending = f", {count}" if count != 1 else ""
    guard = body.guard(op.pred)
    body.lines.append(f"\t{guard}mbarrier.arrive.shared::{space}.b64 _, {at}{ending};")


def _mbarrier_expect_tx(body: Body, op: MbarrierExpectTxOp) -> None:
    at = address(body.register(op.addr), op.offset.value.data)
    body.lines.append(
        f"\t{body.guard(op.pred)}mbarrier.arrive.expect_tx.shared::cta.b64 _, {at}, "
        f"{op.bytes.value.data};"
    )


def _mbarrier_wait(body: Body, op: MbarrierWaitOp) -> None:
    at = address(body.register(op.addr), op.offset.value.data)
    parity = body.values[op.parity]
    done = body.names.fresh("pred")
    label = f"$L_{body.name}_wait_{body.label()}"
    body.lines += [
        f"{label}:",
        f"\tmbarrier.try_wait.parity.shared::cta.b64 {done}, {at}, {parity};",
        f"\t@!{done} bra {label};",
    ]


def _cp_async_mbarrier_arrive(body: Body, op: CpAsyncMbarrierArriveOp) -> None:
    at = address(body.register(op.addr), op.offset.value.data)
    noinc = ".noinc" if op.noinc is not None else ""
    body.lines.append(f"\tcp.async.mbarrier.arrive{noinc}.shared::cta.b64 {at};")


def _elect(body: Body, op: ElectOp) -> None:
    body.lines.append(f"\telect.sync _|{body.define(op.res)}, 0xffffffff;")


def _mapa(body: Body, op: MapaOp) -> None:
    addr, rank = body.register(op.addr), body.values[op.rank]
    body.lines.append(f"\tmapa.shared::cluster.u32 {body.define(op.res)}, {addr}, {rank};")


def _try_cancel(body: Body, op: TryCancelOp) -> None:
    at = address(body.register(op.addr), op.offset.value.data)
    barrier = address(body.register(op.barrier), op.barrier_offset.value.data)
    everywhere = "" if op.everywhere is None else ".multicast::cluster::all"
    body.lines.append(
        "\tclusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
        f"{everywhere}.b128 {at}, {barrier};"
    )


def _query_cancel(body: Body, op: QueryCancelOp) -> None:
    at = address(body.register(op.addr), op.offset.value.data)
    response, canceled = body.names.fresh("b128"), body.names.fresh("pred")
    first, otherwise = body.define(op.res), body.values[op.otherwise]
    query = "clusterlaunchcontrol.query_cancel"
    body.lines += [
        f"\tld.shared.b128 {response}, {at};",
        f"\t{query}.is_canceled.pred.b128 {canceled}, {response};",
        f"\tmov.b32 {first}, {otherwise};",
        f"\t@{canceled} {query}.get_first_ctaid::x.b32.b128 {first}, {response};",
    ]


def _st_async(body: Body, op: StAsyncOp) -> None:
    data, type_ = body.arrays[op.data], op.data.type
    assert isinstance(type_, RegsType)
    mnemonic = f"st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.{type_.cls}"
    barrier = address(body.register(op.barrier), op.at.value.data)
    for first in range(0, type_.count, 4):
        offset = op.offset.value.data + first // 4 * op.stride.value.data
        at = address(body.register(op.addr), offset)
        values = ", ".join(data[first : first + 4])
        body.lines.append(f"\t{mnemonic} {at}, {{{values}}}, {barrier};")


def _cluster_barrier(body: Body, op: ClusterArriveOp | ClusterWaitOp) -> None:
    modifiers = f".{op.modifiers.data}" if op.modifiers.data else ""
    body.lines.append(f"\t{op.name[len('ptx.') :]}{modifiers};")


def _setmaxnreg(body: Body, op: SetMaxRegsOp) -> None:
    body.lines.append(f"\tsetmaxnreg.{op.action.data}.sync.aligned.u32 {op.count.value.data};")


def _box(body: Body, map: SSAValue, coords: Sequence[SSAValue]) -> str:
    """The tensor operand of a copy."""
    shown = ", ".join([body.values[coord] for coord in coords])
    return f"[{body.values[map]}, {{{shown}}}]"


def _endings(
    body: Body, multicast: SSAValue | None, policy: SSAValue | None, pair: bool = False
) -> tuple[str, str]:
    """The modifiers and the operands of what a copy may have besides."""
    modifiers = operands = ""
    if multicast is not None:
        modifiers, operands = ".multicast::cluster", f", {body.register(multicast)}"
    if pair:
        modifiers += ".cta_group::2"
    if policy is not None:
        modifiers += ".L2::cache_hint"
        operands += f", {body.register(policy)}"
    return modifiers, operands


def _space(body: Body, op: TmaLoadOp | BulkLoadOp) -> str:
    """The space of shared memory that a load writes to."""
    is_own = op.multicast is None and body.chip.loads_to_cta
    return "shared::cta" if is_own else "shared::cluster"


def _tma_load(body: Body, op: TmaLoadOp) -> None:
    dst = address(body.register(op.dst), op.dst_offset.value.data)
    barrier = address(body.register(op.barrier), op.barrier_offset.value.data)
    modifiers, operands = _endings(body, op.multicast, op.policy, op.pair is not None)
    mode, moved = "tile", ""
    if op.offsets:
        mode = "im2col"
        moved = f", {{{', '.join(body.register(offset) for offset in op.offsets)}}}"
    rank = len(op.coords)
    if op.gathers is not None:
        mode, rank = "tile::gather4", 2
    space = _space(body, op)
    body.lines.append(
        f"\t{body.guard(op.pred)}cp.async.bulk.tensor.{rank}d.{space}.global."
        f"{mode}.mbarrier::complete_tx::bytes{modifiers} {dst}, "
        f"{_box(body, op.map, op.coords)}, {barrier}{moved}{operands};"
    )


def _tma_store(body: Body, op: TmaStoreOp) -> None:
    src = address(body.register(op.src), op.src_offset.value.data)
    modifiers, operands = _endings(body, None, op.policy)
    family, action = "cp", ""
    if op.reduce is not None:
        family, action = "cp.reduce", f".{op.reduce.data}"
    body.lines.append(
        f"\t{body.guard(op.pred)}{family}.async.bulk.tensor.{len(op.coords)}d.global.shared::cta"
        f"{action}.tile.bulk_group{modifiers} {_box(body, op.map, op.coords)}, {src}{operands};"
    )


def _tma_prefetch(body: Body, op: TmaPrefetchOp) -> None:
    body.lines.append(
        f"\t{body.guard(op.pred)}cp.async.bulk.prefetch.tensor.{len(op.coords)}d.L2.global.tile "
        f"{_box(body, op.map, op.coords)};"
    )


def _prefetch_tensormap(body: Body, op: PrefetchTensorMapOp) -> None:
    body.lines.append(f"\t{body.guard(op.pred)}prefetch.tensormap [{body.values[op.map]}];")


def _fence_tensormap(body: Body, op: FenceTensorMapOp) -> None:
    body.lines.append(
        f"\tfence.proxy.tensormap::generic.acquire.sys [{body.register(op.map)}], 128;"
    )


def _size(body: Body, op: BulkLoadOp | BulkStoreOp) -> str:
    if op.bytes is not None:
        return str(op.bytes.value.data)
    assert op.size is not None
    return body.values[op.size]


def _bulk_load(body: Body, op: BulkLoadOp) -> None:
    dst = address(body.register(op.dst), op.dst_offset.value.data)
    src = address(body.register(op.src), op.src_offset.value.data)
    barrier = address(body.register(op.barrier), op.barrier_offset.value.data)
    modifiers, operands = _endings(body, op.multicast, op.policy)
    body.lines.append(
        f"\t{body.guard(op.pred)}cp.async.bulk.{_space(body, op)}.global"
        ".mbarrier::complete_tx::bytes"
        f"{modifiers} {dst}, {src}, {_size(body, op)}, {barrier}{operands};"
    )


def _bulk_store(body: Body, op: BulkStoreOp) -> None:
    dst = address(body.register(op.dst), op.dst_offset.value.data)
    src = address(body.register(op.src), op.src_offset.value.data)
    modifiers, operands = _endings(body, None, op.policy)
    family, action = "cp", ""
    if op.reduce is not None:
        family, action = "cp.reduce", f".{op.reduce.data}"
    body.lines.append(
        f"\t{body.guard(op.pred)}{family}.async.bulk.global.shared::cta.bulk_group{modifiers}"
        f"{action} {dst}, {src}, {_size(body, op)}{operands};"
    )


def _bulk_wait(body: Body, op: BulkWaitOp) -> None:
    read = ".read" if op.read is not None else ""
    body.lines.append(f"\tcp.async.bulk.wait_group{read} {op.pending.value.data};")


def _smem_desc(body: Body, op: SmemDescOp) -> None:
    type_, start = op.res.type, body.register(op.start)
    assert isinstance(type_, SmemDescType)
    name = body.values[op.res] = body.names.fresh("b64")
    constant = type_.data.constant
    signed = constant - (1 << 64) if constant >> 63 else constant
    body.lines.append(f"\tor.b64 {name}, {start}, {signed};")


def _wgmma(body: Body, op: WgmmaOp) -> None:
    acc = body.arrays[op.acc]
    registers, width = entries(op.counts)
    c, a, b = entries(op.c), entries(op.a), entries(op.b)
    scale = entries(op.scale) if op.scale is not None else (-1,) * len(c)
    preds = [body.values[pred] for pred in op.scale_d]
    immediates = "".join([f", {value}" for value in entries(op.immediates)])
    # All sums come before the first instruction, so that nothing stands between two of them.
    if isinstance(op.lhs.type, RegsType):
        names = body.arrays[op.lhs]
        lhs = [f"{{{', '.join(names[first : first + width])}}}" for first in a]
    else:
        lhs = _descriptors(body, op.lhs, a)
    rhs = _descriptors(body, op.rhs, b)
    head = f"\twgmma.mma_async.{op.modifiers.data} "
    for first, left, right, which in zip(c, lhs, rhs, scale, strict=True):
        d = ", ".join(acc[first : first + registers])
        keep = preds[which] if which >= 0 else "1"
        body.lines.append(f"{head}{{{d}}}, {left}, {right}, {keep}{immediates};")


def _descriptors(body: Body, base: SSAValue, addends: Sequence[int]) -> list[str]:
    """A descriptor and its addends, each sum computed once."""
    start = body.values[base]
    made = {0: start}
    for addend in addends:
        if addend not in made:
            made[addend] = body.names.fresh("b64")
            body.lines.append(f"\tadd.s64 {made[addend]}, {start}, {addend};")
    return [made[addend] for addend in addends]


def _wgmma_wait(body: Body, op: WgmmaWaitOp) -> None:
    body.lines.append(f"\twgmma.wait_group.sync.aligned {op.pending.value.data};")


def _tmem_alloc(body: Body, op: TmemAllocOp) -> None:
    at = address(body.register(op.addr), op.offset.value.data)
    body.lines.append(
        f"\ttcgen05.alloc.cta_group::{op.group.value.data}.sync.aligned.shared::cta.b32 {at}, "
        f"{op.columns.value.data};"
    )


def _tmem_dealloc(body: Body, op: TmemDeallocOp) -> None:
    body.lines.append(
        f"\ttcgen05.dealloc.cta_group::{op.group.value.data}.sync.aligned.b32 "
        f"{body.register(op.addr)}, {op.columns.value.data};"
    )


def _tmem_relinquish(body: Body, op: TmemRelinquishOp) -> None:
    group = op.group.value.data
    body.lines.append(f"\ttcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;")


def _tcgen05_mma(body: Body, op: Tcgen05MmaOp) -> None:
    d, a, b = entries(op.d), entries(op.a), entries(op.b)
    scale = entries(op.scale) if op.scale is not None else (-1,) * len(d)
    preds = [body.values[pred] for pred in op.enable]
    factors = "".join([f"[{body.register(each)}], " for each in op.factors])
    if op.masks:
        factors = f"{{{', '.join([body.register(mask) for mask in op.masks])}}}, "
    idesc = body.names.fresh("b32")
    body.lines.append(f"\tmov.b32 {idesc}, {op.idesc.value.data:#x};")
    if not isinstance(op.lhs.type, SmemDescType):
        base = body.register(op.lhs)
        lhs = [address(base, addend) for addend in a]
    else:
        lhs = _descriptors(body, op.lhs, a)
    rhs = _descriptors(body, op.rhs, b)
    acc = body.register(op.acc)
    if -1 in scale:
        always = body.names.fresh("pred")
        body.lines.append(f"\tsetp.eq.u32 {always}, 0, 0;")
        preds.append(always)
    head = f"\ttcgen05.mma.{op.modifiers.data} "
    for first, left, right, which in zip(d, lhs, rhs, scale, strict=True):
        to = address(acc, first)
        body.lines.append(f"{head}{to}, {left}, {right}, {idesc}, {factors}{preds[which]};")


def _tcgen05_commit(body: Body, op: Tcgen05CommitOp) -> None:
    at = address(body.register(op.addr), op.offset.value.data)
    modifiers, operands = _endings(body, op.multicast, None)
    body.lines.append(
        f"\t{body.guard(op.pred)}tcgen05.commit.cta_group::{op.group.value.data}"
        f".mbarrier::arrive::one.shared::cluster{modifiers}.b64 {at}{operands};"
    )


def _tmem_transfer(body: Body, op: TmemLdOp | TmemStOp) -> None:
    names, base = body.arrays[op.array], body.register(op.addr)
    count = tmem_registers(op.modifiers.data)
    reduced = op.reduced if isinstance(op, TmemLdOp) else None
    starts = zip(entries(op.registers), entries(op.addends), strict=True)
    for number, (first, addend) in enumerate(starts):
        registers = f"{{{', '.join(names[first : first + count])}}}"
        if reduced is not None:
            registers += f", {body.arrays[reduced][number]}"
        at = address(base, addend)
        operands = f"{registers}, {at}" if isinstance(op, TmemLdOp) else f"{at}, {registers}"
        body.lines.append(f"\t{op.name[len('ptx.') :]}.{op.modifiers.data} {operands};")


def _tmem_copy(body: Body, op: TmemCopyOp) -> None:
    at = address(body.register(op.addr), 0)
    body.lines.append(f"\ttcgen05.cp.{op.modifiers.data} {at}, {body.values[op.source]};")


def _tcgen05_fence(body: Body, op: Tcgen05FenceOp) -> None:
    body.lines.append(f"\ttcgen05.fence::{op.side.data};")


ASYNC_LINES: dict[type[Operation], Callable[[Body, Any], None]] = {
    BarSyncOp: _bar,
    BarAnyOp: _bar_any,
    BarArriveOp: _bar,
    BarWarpSyncOp: _bar_warp_sync,
    FenceOp: _fence,
    CpAsyncCommitOp: _fixed("cp.async.commit_group"),
    CpAsyncWaitOp: _cp_async_wait,
    MbarrierInitOp: _mbarrier_init,
    MbarrierInvalOp: _mbarrier_inval,
    MbarrierArriveOp: _mbarrier_arrive,
    MbarrierExpectTxOp: _mbarrier_expect_tx,
    MbarrierWaitOp: _mbarrier_wait,
    CpAsyncMbarrierArriveOp: _cp_async_mbarrier_arrive,
    ElectOp: _elect,
    MapaOp: _mapa,
    TryCancelOp: _try_cancel,
    QueryCancelOp: _query_cancel,
    StAsyncOp: _st_async,
    ClusterArriveOp: _cluster_barrier,
    ClusterWaitOp: _cluster_barrier,
    SetMaxRegsOp: _setmaxnreg,
    GriddepWaitOp: _fixed("griddepcontrol.wait"),
    GriddepLaunchOp: _fixed("griddepcontrol.launch_dependents"),
    TmaLoadOp: _tma_load,
    TmaStoreOp: _tma_store,
    TmaPrefetchOp: _tma_prefetch,
    PrefetchTensorMapOp: _prefetch_tensormap,
    FenceTensorMapOp: _fence_tensormap,
    BulkLoadOp: _bulk_load,
    BulkStoreOp: _bulk_store,
    BulkCommitOp: _fixed("cp.async.bulk.commit_group"),
    BulkWaitOp: _bulk_wait,
    SmemDescOp: _smem_desc,
    WgmmaOp: _wgmma,
    WgmmaFenceOp: _fixed("wgmma.fence.sync.aligned"),
    WgmmaCommitOp: _fixed("wgmma.commit_group.sync.aligned"),
    WgmmaWaitOp: _wgmma_wait,
    TmemAllocOp: _tmem_alloc,
    TmemDeallocOp: _tmem_dealloc,
    TmemRelinquishOp: _tmem_relinquish,
    Tcgen05MmaOp: _tcgen05_mma,
    Tcgen05CommitOp: _tcgen05_commit,
    TmemLdOp: _tmem_transfer,
    TmemStOp: _tmem_transfer,
    TmemCopyOp: _tmem_copy,
    TmemWaitLdOp: _fixed("tcgen05.wait::ld.sync.aligned"),
    TmemWaitStOp: _fixed("tcgen05.wait::st.sync.aligned"),
    Tcgen05FenceOp: _tcgen05_fence,
}
