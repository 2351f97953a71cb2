"""`cute-tile`: give every kernel its grid, its work-item coordinates and its host part.

Before, `cute.tile_index` says which tiles there are, and `cute.gemm` may stand for a whole problem;
after, tile coordinates come from the block index in the schedule's raster order, and `@launch`
computes the grid from the tensors' extents.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f32,
    i32,
    i64,
)
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms import target
from cutedialect.dialects import cute
from cutedialect.dialects.walks import holds, ops_around, ops_of
from cutedialect.passes.analysis.memory_views import ordering_atomic
from cutedialect.passes.launch_arguments import is_known_on_host, launches_of, on_host
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder, erase
from cutedialect.passes.tile.cluster_bounds import drop_bounds
from cutedialect.passes.tile.coordinate_bounds import IN_BOUNDS, mark_coordinates
from cutedialect.passes.tile.cut_tiles import cut_tiles, narrow_tiles
from cutedialect.passes.tile.empty_loops import erase_empty_loops
from cutedialect.passes.tile.flatten_tiles import flatten_tiles
from cutedialect.passes.tile.join_tiles import join_tiles
from cutedialect.passes.tile.pad_tiles import pad_tiles
from cutedialect.passes.tile.schedule_heuristic import complete
from cutedialect.passes.tile.share_rows import share_rows
from cutedialect.passes.tile.split_rows import split_rows
from cutedialect.passes.tile.tile_scheduler import (
    grid_size,
    lower_tile_index,
    shares_rows,
    tile_index_of,
)
from cutedialect.passes.tile.walk_rows import walk_rows
from cutedialect.schedule import Schedule, replace_set

_VIEWS = (
    cute.LocalTileOp,
    cute.IndexedTileOp,
    cute.PixelTileOp,
    cute.SliceOp,
    cute.TransposeOp,
    cute.MakeViewOp,
    cute.MemberOp,
)
# The element types of arguments that are bytes in IR, by MLIR names.
ELEMENTS = "cute.elements"
# The first target whose launches may begin before the one in front of them has ended.
_EARLY_TARGET = 90
# The first target with elected threads and barriers of which roles are made.
_ROLES_TARGET = 90


@dataclass(frozen=True)
class TilePass(ModulePass):
    """Lower work items to block indices and write the host part."""

    name = "cute-tile"

    arch: str = "sm_80"
    schedule: str | None = None

    def __post_init__(self) -> None:
        target(self.arch)
        if self.schedule:
            Schedule.parse(self.schedule)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["cute.arch"] = StringAttr(self.arch)
        asked = Schedule.parse(self.schedule) if self.schedule else None
        kernels = [kernel for kernel in op.ops if isinstance(kernel, cute.KernelOp)]
        hosts = [host for host in op.ops if isinstance(host, func.FuncOp)]
        for kernel in kernels:
            given = Schedule() if kernel.schedule is None else kernel.schedule.data
            given = given.merged(asked)
            _expand_whole_problem(kernel, given)
            given = _without_empty_loops(kernel, given)
            if not holds(kernel, cute.GemmOp):
                given = self._fit_tiles(kernel, given)
            elif holds(kernel, cute.LoadOp):
                pad_tiles(kernel)
            if IN_BOUNDS not in kernel.attributes:
                mark_coordinates(kernel)
            waits = target(self.arch).number >= _EARLY_TARGET and not holds(kernel, cute.GemmOp)
            if waits and hosts and kernel is not kernels[0]:
                # Kernels that wait for memory take some tens of microseconds, a launch one or two.
                given = Schedule(early_launch="yes").merged(given)
            schedule = self._complete(kernel, given)
            index = tile_index_of(kernel)
            if not hosts:
                _write_host(op, kernel)
            for launch in launches_of(kernel):
                if not launch.grid:
                    _fill_in(launch, kernel, index, schedule)
            if index is not None:
                lower_tile_index(kernel, index, schedule)
            if holds(kernel, cute.ClusterBoundOp):
                drop_bounds(kernel)

    def _complete(self, kernel: cute.KernelOp, given: Schedule) -> Schedule:
        """Choose what a schedule leaves open, and say it of the kernel."""
        _check_tile(kernel, given)
        given = _of_one_item(kernel, given)
        kernel.properties["schedule"] = cute.ScheduleAttr(given)
        if given.plan.parts > 1:
            split_rows(kernel, given.plan.parts)
        schedule = complete(kernel, given, self.arch)
        _check_target(kernel, schedule, self.arch)
        assert schedule.warps is not None
        kernel.properties["schedule"] = cute.ScheduleAttr(schedule)
        kernel.properties["threads"] = IntegerAttr(32 * prod(schedule.warps), i32)
        if schedule.ctas_of_cluster > 1:
            kernel.properties["cluster"] = IntegerAttr(schedule.ctas_of_cluster, i32)
        return schedule

    def _fit_tiles(self, kernel: cute.KernelOp, given: Schedule) -> Schedule:
        """Cut and join the tiles of a kernel without a multiply, whose schedule may become one of
        CTAs that share rows.
        """
        if ordering_atomic(kernel.body.block) is not None:
            # What a work item does in front of it and behind stays with the item.
            pad_tiles(kernel)
            return given
        cut_tiles(kernel, self.name)
        if not flatten_tiles(kernel, given, self.name):
            narrow_tiles(kernel, self.name)
        parts = share_rows(kernel, given, self.arch, self.name)
        if parts > 1:
            given = given.merged(Schedule(split_k=parts, reduction="cluster"))
        walk_rows(kernel, self.name)
        join_tiles(kernel, self.name)
        pad_tiles(kernel)
        return given


def _without_empty_loops(kernel: cute.KernelOp, given: Schedule) -> Schedule:
    """Erase the loops that make no trip; the schedule of what is left, which is not that of a
    program with multiplies where these loops held all of them.
    """
    multiplied = holds(kernel, cute.GemmOp)
    erase_empty_loops(kernel, TilePass.name)
    if not multiplied or holds(kernel, cute.GemmOp) or not given.text():
        return given
    why = "the loops around all multiplies have no trip"
    remark(TilePass.name, kernel, f"{given.text()} not taken: {why}")
    return Schedule()


def _of_one_item(kernel: cute.KernelOp, given: Schedule) -> Schedule:
    """The schedule of a kernel without work items, which is launched as one CTA: nothing is shared
    between CTAs.
    """
    grids = [launch.grid for launch in launches_of(kernel)]
    if holds(kernel, cute.TileIndexOp) or shares_rows(kernel) or any(grids):
        return given
    asked = Schedule(
        cluster=given.cluster if prod(given.cluster or ()) > 1 else None,
        split_k=given.split_k if (given.split_k or 1) > 1 else None,
    ).text()
    if not asked:
        return given
    why = "a kernel without cute.tile_index has one work item and one CTA"
    remark("cute-tile", kernel, f"{asked} not taken: {why}")
    return replace_set(given, {"cluster": (1, 1), "split_k": 1, "reduction": None})


def _expand_whole_problem(kernel: cute.KernelOp, given: Schedule) -> None:
    """`cute.gemm` on whole tensors becomes a tile program: work item, k loop, store."""
    gemms = [op for op in kernel.body.block.ops if isinstance(op, cute.GemmOp)]
    whole = [op for op in gemms if op.is_whole_problem]
    if not whole:
        return
    if len(whole) > 1:
        raise PassFailedException(whole[1], "expected one whole-problem cute.gemm in a kernel")
    gemm = whole[0]
    bm, bn, bk = given.tile or (128, 128, 32)
    build = ScalarBuilder(InsertPoint.before(gemm), gemm)
    m, n = build.insert(cute.TileIndexOp(gemm.acc, [bm, bn])).results
    acc = build.value(cute.AllocFragmentOp(cute.FragmentType.get(f32, (bm, bn))))
    build.insert(cute.FillOp(acc, build.value(arith.ConstantOp(FloatAttr(0.0, f32)))))
    low, one = build.constant(0), build.constant(1)
    trips = build.tiles(gemm.a, 1, bk)
    body = Block(arg_types=[i32])
    build.insert(scf.ForOp(low, trips, one, [], body))
    inner = build.at(InsertPoint.at_end(body))
    k = body.args[0]
    a = inner.value(cute.LocalTileOp(gemm.a, [bm, bk], [m, k]))
    b = inner.value(cute.LocalTileOp(gemm.b, [bn, bk], [n, k]))
    inner.insert(cute.GemmOp(a, b, acc))
    inner.insert(scf.YieldOp())
    out, element = acc, cute.memref_of(gemm.acc).element
    if element != f32:
        type_ = cute.FragmentType.get(element, (bm, bn))
        narrow = cute.MapOp.of(lambda each: arith.TruncFOp(each, element), [acc], type_)  # pyright: ignore
        out = build.value(narrow)
    view = build.value(cute.LocalTileOp(gemm.acc, [bm, bn], [m, n]))
    build.insert(cute.CopyOp(out, view))
    erase(gemm)


def _check_target(kernel: cute.KernelOp, schedule: Schedule, arch: str) -> None:
    """What a schedule asks for is what the target and the role plan have."""
    number, cluster = target(arch).number, schedule.cluster or (1, 1)
    # Twice the portable size is there with an attribute, which the launcher sets.
    portable = target(arch).max_cluster
    most = 2 * portable if portable > 1 else 1
    cancels = schedule.scheduler == "cancel"
    # Claims are of single CTAs.
    claims = "dynamic" if prod(cluster) == 1 else "persistent"
    plan = schedule.plan
    shares, schedulers, roles = "reduction = cluster", ("single", "persistent"), "specialized"
    instead, has_other_roles = "reduction = ordered", not plan.is_specialized
    if shares_rows(kernel):
        schedulers, roles, instead = ("single",), "uniform", "split_k = 1"
        has_other_roles = plan.loads is not None
    problems = [
        (
            prod(cluster) > most,
            f"a cluster of at most {most} CTAs on {arch}, got {cluster}; take cluster = (1,1)",
        ),
        (
            cancels and number < 100,
            "the scheduler cancel from sm_100 on (clusterlaunchcontrol), got it on "
            f"{arch}; take scheduler = {claims}",
        ),
        (
            cancels and plan.loads is None,
            "roles of which one loads with the scheduler cancel, got the role plan uniform; take "
            f"scheduler = {claims}",
        ),
        *(
            (
                schedule.shares_in_cluster and is_wrong,
                f"{what} with {shares}, got {got}; take {instead}",
            )
            for is_wrong, what, got in (
                ((schedule.split_k or 1) > most, f"split_k of at most {most}", schedule.split_k),
                (cluster != (1, 1), "cluster = (1,1)", schedule.cluster),
                (has_other_roles, f"roles = {roles}", schedule.roles),
                (
                    schedule.scheduler not in schedulers,
                    f"the scheduler {' or '.join(schedulers)}",
                    schedule.scheduler,
                ),
            )
        ),
        (
            plan.loads is not None and number < _ROLES_TARGET and not holds(kernel, cute.GemmOp),
            f"the role plan uniform on {arch}, got {schedule.roles}; take roles = uniform",
        ),
        (
            schedule.epilogue == "tma" and plan.loads is None,
            "the role plan specialized or alternate with epilogue = tma, got uniform on "
            f"{arch}; take epilogue = smem",
        ),
    ]
    for is_wrong, expected in problems:
        if is_wrong:
            raise PassFailedException(kernel, f"expected {expected}")


def _check_tile(kernel: cute.KernelOp, given: Schedule) -> None:
    """A schedule's tile is that of the program, which has it in its ops: (M, N) or (M, N, K) of its
    first multiply, whose rows may be a band of those that multiply the same tile of B.
    """
    gemm = next(iter(ops_of(kernel, cute.GemmOp)), None)
    if gemm is None or given.tile is None:
        return
    bands = {op.acc for op in ops_of(kernel, cute.GemmOp) if op.b == gemm.b}
    rows, columns = cute.shape_of(gemm.acc.type)
    of_bands = sum(cute.shape_of(acc.type)[0] for acc in bands)
    written = [(height, columns, gemm.depth) for height in dict.fromkeys((rows, of_bands))]
    if given.tile not in [tile[: max(2, len(given.tile))] for tile in written]:
        raise PassFailedException(
            gemm,
            f"expected the schedule's tile to be the program's {' or '.join(map(str, written))}, "
            f"got {given.tile}",
        )


def _write_host(module: ModuleOp, kernel: cute.KernelOp) -> None:
    """Append `func.func @launch`, which launches the kernel with what it is given."""
    args = kernel.body.block.args
    block = Block(arg_types=[arg.type for arg in args])
    for mine, theirs in zip(block.args, args, strict=True):
        mine.name_hint = theirs.name_hint
    build = ScalarBuilder(InsertPoint.at_end(block), kernel)
    build.insert(cute.LaunchOp(kernel.sym_name.data, [], block.args))
    build.insert(func.ReturnOp())
    host = func.FuncOp("launch", ([arg.type for arg in args], []), Region(block))
    host.location = kernel.location
    if ELEMENTS in kernel.attributes:
        host.attributes[ELEMENTS] = kernel.attributes[ELEMENTS]
    module.body.block.add_op(host)


def _fill_in(
    launch: cute.LaunchOp,
    kernel: cute.KernelOp,
    index: cute.TileIndexOp | None,
    schedule: Schedule,
) -> None:
    """Give a launch its grid, and record which of the host's arguments the kernel stores to."""
    threads = kernel.properties["threads"].value.data  # pyright: ignore
    cluster = None if kernel.cluster is None else (kernel.cluster.value.data, 1, 1)
    build = ScalarBuilder(InsertPoint.before(launch), launch)
    one = build.constant(1)
    if index is None:
        # One work item, of which the CTAs of a cluster may share the rows.
        total = one if cluster is None else build.constant(cluster[0])
    else:
        total = grid_size(build, _tensor_on_host(kernel, index, launch), index, schedule)
    grid, name = [total, one, one], kernel.sym_name.data
    build.insert(cute.LaunchOp(name, grid, launch.args, threads=threads, cluster=cluster))
    given = [launch.args[position] for position in _written(kernel)]
    host = next(op for op in ops_around(launch) if isinstance(op, func.FuncOp))
    known = host.attributes.get("cute.written")
    written = set(known.get_values()) if isinstance(known, DenseArrayBase) else set()
    written |= {i for i, arg in enumerate(host.body.block.args) if arg in given}
    host.attributes["cute.written"] = DenseArrayBase.from_list(i64, sorted(written))
    erase(launch)


def _written(kernel: cute.KernelOp) -> list[int]:
    """Positions of the arguments that the kernel may store to."""
    roots: set[SSAValue] = set()
    for op in ops_of(kernel.body.block, cute.CopyOp, cute.AtomicOp):
        value = op.destination
        while isinstance(view := value.owner, _VIEWS):
            value = view.operands[0]
        roots.add(value)
    return [position for position, arg in enumerate(kernel.body.block.args) if arg in roots]


def _tensor_on_host(
    kernel: cute.KernelOp, index: cute.TileIndexOp, launch: cute.LaunchOp
) -> SSAValue:
    """The tensor of the work items in the host part: an argument, or a view of one."""
    if not is_known_on_host(kernel, index.memref):
        raise PassFailedException(
            index,
            "expected cute.tile_index on a kernel argument, or on a view of one through a layout "
            "that follows from arguments, got another tensor",
        )
    return on_host(kernel, launch, index.memref)
