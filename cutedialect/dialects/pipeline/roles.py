"""Roles: which warps run which part of a kernel."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import ParsePropInAttrDict, opt_prop_def, prop_def, region_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoTerminator
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import NONE, Effects

from .rings import is_whole

_REGISTERS = range(24, 257, 8)


@irdl_op_definition
class RoleOp(IRDLOperation):
    """What warps `first` to `first + warps - 1` of the CTA do, side by side with the other roles.

    With `registers`, the warpgroup changes its registers for each thread to that number before
    (PTX ISA 9.7.19.5); all roles in one warpgroup say the same. With `elect` the role has one warp,
    and one thread of it runs the body. With `instances` the warps are that many teams of neighbors;
    each runs the body by itself, with threads, barriers and scratch memory of its own. With `pair`
    only the even CTA of a pair has the role, which it plays for both.

    Example:

        cute.kernel @k() {
          pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, registers = 40 : i32, elect} {
            cute_nvgpu.tma_store_commit
          }
          pipeline.role "mma" attributes {first = 4 : i32, warps = 8 : i32, registers = 232 : i32} {
            cute.barrier
          }
        }
        cute.kernel @teams() {
          pipeline.role "mma" attributes {first = 4 : i32, warps = 8 : i32, instances = 2 : i32} {
            cute.barrier
          }
        }
    """

    name = "pipeline.role"
    role = prop_def(StringAttr)
    first = prop_def(IntegerAttr)
    warps = prop_def(IntegerAttr)
    registers = opt_prop_def(IntegerAttr)
    elect = opt_prop_def(UnitAttr)
    instances = opt_prop_def(IntegerAttr)
    pair = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$role attr-dict-with-keyword $body"

    def __init__(
        self,
        role: str,
        first: int,
        warps: int,
        body: Region | Block,
        registers: int | None = None,
        elect: bool = False,
        instances: int = 1,
        pair: bool = False,
    ) -> None:
        super().__init__(
            properties={
                "role": StringAttr(role),
                "first": IntegerAttr(first, i32),
                "warps": IntegerAttr(warps, i32),
                "registers": None if registers is None else IntegerAttr(registers, i32),
                "elect": UnitAttr() if elect else None,
                "instances": IntegerAttr(instances, i32) if instances > 1 else None,
                "pair": UnitAttr() if pair else None,
            },
            regions=[body if isinstance(body, Region) else Region(body)],
        )

    @property
    def warp_range(self) -> range:
        """The warps of the CTA that play the role."""
        first = self.first.value.data
        return range(first, first + self.warps.value.data)

    @property
    def teams(self) -> int:
        """How many instances of the body run side by side."""
        return 1 if self.instances is None else self.instances.value.data

    def effects(self) -> Effects:
        return NONE

    def verify_(self) -> None:
        mine = self.warp_range
        if len(mine) < 1 or mine.start < 0 or mine.stop > 32:
            raise VerifyException(f"expected warps in 0..31, got {mine.start}..{mine.stop - 1}")
        if self.elect is not None and len(mine) != 1:
            raise VerifyException(f"expected one warp for a role with elect, got {len(mine)}")
        if self.teams < 1 or len(mine) % self.teams:
            raise VerifyException(
                f"expected a number of instances that divides {len(mine)} warps, got {self.teams}"
            )
        registers = self.registers
        if registers is not None and registers.value.data not in _REGISTERS:
            raise VerifyException(
                f"expected a multiple of 8 registers in 24..256, got {registers.value.data}"
            )
        block = self.parent
        if block is None:
            return
        # Imported here: it reads this class, the kernel and the ops of a body.
        from .budgets import verify_budgets

        verify_budgets(self)
        for other in block.ops:
            if isinstance(other, RoleOp) and other is not self and is_whole(other):
                self._verify_beside(other)

    def _verify_beside(self, other: RoleOp) -> None:
        mine, yours = self.warp_range, other.warp_range
        if mine.start < yours.stop and yours.start < mine.stop:
            raise VerifyException(
                f"expected warps of its own for role '{self.role.data}', got some of "
                f"'{other.role.data}'"
            )
        groups = {warp // 4 for warp in mine} & {warp // 4 for warp in yours}
        if groups and self.registers != other.registers:
            raise VerifyException(
                f"expected one number of registers for the roles '{self.role.data}' and "
                f"'{other.role.data}' of one warpgroup, got two"
            )


def role_of(op: Operation) -> RoleOp | None:
    """The role around an op."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, RoleOp):
        parent = parent.parent_op()
    return parent
