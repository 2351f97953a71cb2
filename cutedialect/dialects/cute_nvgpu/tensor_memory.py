"""Taking columns of tensor memory and giving them back (PTX ISA 9.7.16.7)."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32
from xdsl.irdl import ParsePropInAttrDict, opt_prop_def, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms.tmem_layouts import ALLOCATIONS
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ORDERS, Effects


class _ColumnsOp(IRDLOperation):
    """What one warp does to all columns of a kernel; with `pair` the CTAs of a pair do it together."""

    columns = prop_def(IntegerAttr)
    pair = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, columns: int, pair: bool = False) -> None:
        super().__init__(
            properties={
                "columns": IntegerAttr(columns, i32),
                "pair": UnitAttr() if pair else None,
            }
        )

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        columns = self.columns.value.data
        if columns not in ALLOCATIONS:
            raise VerifyException(
                f"expected a number of columns of {', '.join(map(str, ALLOCATIONS))}, got {columns}"
            )


@irdl_op_definition
class TmemAllocOp(_ColumnsOp):
    """The first warp of the CTA takes columns for all `cute.alloc_tmem`, and writes their address to
    shared memory; nobody takes more behind it.

    Example:

        cute.kernel @k() {
          cute_nvgpu.tmem_alloc {columns = 256 : i32}
          pipeline.start
          cute_nvgpu.tmem_address
        }
    """

    name = "cute_nvgpu.tmem_alloc"


@irdl_op_definition
class TmemAddressOp(IRDLOperation):
    """Every thread reads from shared memory where the columns are; a meeting of all comes between
    this op and `cute_nvgpu.tmem_alloc`.

    Example:

        cute.kernel @k() {
          cute_nvgpu.tmem_alloc {columns = 32 : i32}
          pipeline.start
          cute_nvgpu.tmem_address
        }
    """

    name = "cute_nvgpu.tmem_address"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def effects(self) -> Effects:
        return ORDERS


@irdl_op_definition
class TmemDeallocOp(_ColumnsOp):
    """The first warp of the role gives all columns back, behind all that anybody does to them.

    Example:

        cute.kernel @k() {
          pipeline.role "main" attributes {first = 0 : i32, warps = 4 : i32} {
            cute_nvgpu.tcgen05_fence "before"
            cute.barrier
            cute_nvgpu.tcgen05_fence "after"
            cute_nvgpu.tmem_dealloc {columns = 256 : i32}
          }
        }
    """

    name = "cute_nvgpu.tmem_dealloc"
