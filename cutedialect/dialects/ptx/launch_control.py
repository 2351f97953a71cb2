"""`clusterlaunchcontrol`: a CTA cancels the launch of a cluster that has not begun, to do its work
(PTX ISA 9.7.13.17).
"""

from __future__ import annotations

from xdsl.dialects.builtin import I64, IntegerAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .registers import B32, check
from .syntax import ZERO, integer

# Bytes of a response, and its alignment.
_RESPONSE = 16


@irdl_op_definition
class TryCancelOp(IRDLOperation):
    """Ask for the launch of a cluster that has not begun to be canceled: the response, 16 bytes, comes
    to shared memory, and its bytes count at a barrier (PTX ISA 9.7.13.17.1). With `everywhere` it
    comes to the same place, and counts at the same barrier, in all CTAs of the cluster.

    After a response that all clusters have begun, a CTA may not ask again.

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_100a", threads = 32 : i32} {
          %p = ptx.elect
          ptx.if %p {
            ptx.clusterlaunchcontrol.try_cancel [%s + 16], [%s + 8]
          }
        }
    """

    name = "ptx.clusterlaunchcontrol.try_cancel"
    addr = operand_def(B32)
    barrier = operand_def(B32)
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    barrier_offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    everywhere = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "(`everywhere` $everywhere^)? ` ` `[` $addr (`+` $offset^)? `]` `,` "
        "`[` $barrier (`+` $barrier_offset^)? `]` attr-dict"
    )

    def __init__(
        self,
        addr: SSAValue,
        barrier: SSAValue,
        offset: int = 0,
        barrier_offset: int = 0,
        everywhere: bool = False,
    ) -> None:
        super().__init__(
            operands=[addr, barrier],
            properties={
                "offset": integer(offset),
                "barrier_offset": integer(barrier_offset),
                "everywhere": UnitAttr() if everywhere else None,
            },
        )

    def verify_(self) -> None:
        _check_place(self.offset)
        at = self.barrier_offset.value.data
        check(at % 8 == 0, f"expected an offset that is a multiple of 8 bytes, got {at}")


@irdl_op_definition
class QueryCancelOp(IRDLOperation):
    """Read a response: the x of the first CTA of the cluster whose launch was canceled, or
    `otherwise` where none was (PTX ISA 9.7.13.17.2).

    Example:

        ptx.kernel @k(%s: b32, %n: b32) attributes {target = "sm_100a", threads = 32 : i32} {
          %x = ptx.clusterlaunchcontrol.query_cancel [%s + 16] else %n
        }
    """

    name = "ptx.clusterlaunchcontrol.query_cancel"
    addr = operand_def(B32)
    otherwise = operand_def(B32)
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    res = result_def(B32)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "` ` `[` $addr (`+` $offset^)? `]` `else` $otherwise attr-dict"

    def __init__(self, addr: SSAValue, otherwise: SSAValue, offset: int = 0) -> None:
        super().__init__(
            operands=[addr, otherwise],
            properties={"offset": integer(offset)},
            result_types=[B32],
        )

    def verify_(self) -> None:
        _check_place(self.offset)


def _check_place(offset: IntegerAttr) -> None:
    at = offset.value.data
    check(
        at % _RESPONSE == 0,
        f"expected an offset that is a multiple of {_RESPONSE} bytes, got {at}",
    )
