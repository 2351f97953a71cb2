"""`cute-synchronize`: the program gets the waits, barriers and fences that its order asks for.

Until here a module means what its ops mean one after the other; nothing in it waits. This pass
finds every dependence that has to cross threads, warps or an asynchronous unit, and puts in front
of its target what completes its source.

    copy a, s {cp.async}; gemm s
    =>
    copy a, s; commit; wait 0; barrier; gemm s

Within one role the order alone says where (`memory_hazards.py`), and buffers that follow each other
share storage where they have to (`overlay.py`). A kernel with roles splits first
(`split_roles.py`); each role's loops take the order that their schedule gives
(`expand_stages.py`), its multiplies become groups (`multiply_groups.py`), and buffers that cross
roles become rings with mbarriers (`mbarrier_rings.py`), as do numbers that one role tells others
(`shared_numbers.py`). Instances of a role take turns (`alternate_instances.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from cutedialect.dialects.cute import KernelOp
from cutedialect.dialects.pipeline import RoleOp
from cutedialect.passes.analysis.resource_plan import stages_of_results
from cutedialect.passes.analysis.ring_edges import plan_rings
from cutedialect.passes.anchors import KernelPass
from cutedialect.passes.rewriting import sweep
from cutedialect.passes.roles.alternate_instances import alternate_instances
from cutedialect.passes.roles.assign_warp_roles import roles_of
from cutedialect.passes.roles.split_roles import split_roles
from cutedialect.passes.schedule.expand_stages import expand_stages, take_turns
from cutedialect.passes.synchronize.mbarrier_rings import drop_covered_fences, insert_rings
from cutedialect.passes.synchronize.memory_hazards import MemoryHazards
from cutedialect.passes.synchronize.narrow_meetings import narrow_meetings
from cutedialect.passes.synchronize.ordered_instances import order_instances
from cutedialect.passes.synchronize.overlay import overlay_buffers
from cutedialect.passes.synchronize.shared_numbers import share_numbers
from cutedialect.passes.synchronize.tensor_rings import insert_tensor_rings
from cutedialect.passes.synchronize.tma_stores import insert_store_rings


@dataclass(frozen=True)
class SynchronizePass(KernelPass):
    """Complete what is asynchronous, and let threads wait for each other, where the order asks."""

    name = "cute-synchronize"

    def run(self, kernel: KernelOp) -> None:
        roles = roles_of(kernel)
        if not roles:
            narrow_meetings(kernel)
            overlay_buffers(kernel)
            MemoryHazards(kernel.body.block).synchronize()
            return
        order_instances(kernel, roles)
        results = stages_of_results(kernel)
        insert_store_rings(kernel, roles)
        rings = plan_rings(kernel, kernel.choices.stages or 2)
        insert_tensor_rings(kernel, roles)
        split_roles(kernel, roles)
        parts = [each for each in kernel.body.block.ops if isinstance(each, RoleOp)]
        for part in parts:
            expand_stages(part)
            sweep(part.body.block)
        insert_rings(kernel, roles, rings, results)
        for part in parts:
            take_turns(part)
        share_numbers(kernel)
        for role in parts:
            narrow_meetings(role)
            # What crosses shared memory has its rings; tensors are stored and loaded again.
            MemoryHazards(role.body.block, ("gmem",)).synchronize()
            drop_covered_fences(role)
            if role.teams > 1:
                alternate_instances(kernel, role)
