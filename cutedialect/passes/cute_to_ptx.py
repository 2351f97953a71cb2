"""`cute-to-ptx`: all passes from a tile program to the ptx dialect, in order."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass


def pipeline(
    arch: str, schedule: str | None = None, protocol: str | None = None
) -> tuple[ModulePass, ...]:
    """The passes that `cute-to-ptx` runs, in order."""
    from cutedialect.passes.bind.defer_sums import DeferSumsPass
    from cutedialect.passes.bind.partition import PartitionPass
    from cutedialect.passes.lower.convert_to_ptx import ConvertToPtxPass
    from cutedialect.passes.protocol.check_protocol import CheckProtocolPass
    from cutedialect.passes.roles.assign_warp_roles import AssignWarpRolesPass
    from cutedialect.passes.schedule.schedule_loops import ScheduleLoopsPass
    from cutedialect.passes.schedule.split_loops import SplitLoopsPass
    from cutedialect.passes.schedule.unroll_loops import UnrollLoopsPass
    from cutedialect.passes.synchronize.expand_rings import ExpandRingsPass
    from cutedialect.passes.synchronize.expand_roles import ExpandRolesPass
    from cutedialect.passes.synchronize.synchronize import SynchronizePass
    from cutedialect.passes.tile.fuse import FusePass
    from cutedialect.passes.tile.structure_exits import StructureExitsPass
    from cutedialect.passes.tile.tile import TilePass

    return (
        StructureExitsPass(),
        FusePass(),
        TilePass(arch=arch, schedule=schedule),
        PartitionPass(arch=arch),
        DeferSumsPass(),
        AssignWarpRolesPass(),
        ScheduleLoopsPass(),
        SynchronizePass(),
        SplitLoopsPass(),
        UnrollLoopsPass(),
        ExpandRingsPass(),
        ExpandRolesPass(),
        CheckProtocolPass(protocol=protocol),
        ConvertToPtxPass(arch=arch),
    )


def steps(
    module: ModuleOp, arch: str, schedule: str | None = None, protocol: str | None = None
) -> tuple[ModulePass, ...]:
    """The passes for a module, one by one: those of the layout algebra first where it has
    operations of it.
    """
    from cutedialect.dialects.walks import walk

    algebra: tuple[ModulePass, ...] = ()
    if any(hasattr(op, "ROW") for op in walk(module)):
        from cutedialect.passes.algebra.expand_ops import ExpandOpsPass
        from cutedialect.passes.algebra.fold_static import FoldStaticPass
        from cutedialect.passes.algebra.fold_structs import FoldStructsPass
        from cutedialect.passes.algebra.to_base import ToBasePass

        algebra = FoldStaticPass(), ExpandOpsPass(), ToBasePass(), FoldStructsPass()
    return (*algebra, *pipeline(arch, schedule, protocol))


@dataclass(frozen=True)
class CuteToPtxPass(ModulePass):
    """Run the whole pipeline for one architecture."""

    name = "cute-to-ptx"

    arch: str = "sm_80"
    schedule: str | None = None
    protocol: str | None = None

    def __post_init__(self) -> None:
        pipeline(self.arch, self.schedule, self.protocol)

    def steps(self, module: ModuleOp) -> tuple[ModulePass, ...]:
        """The passes for a module, one by one."""
        return steps(module, self.arch, self.schedule, self.protocol)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for step in self.steps(op):
            step.apply(ctx, op)
