"""Asynchronous copies between global and shared memory: of boxes of a tensor, by the tensor memory
accelerator (PTX ISA 9.7.9.25.5), and of contiguous bytes, with the groups of bulk stores
(9.7.9.25.4 and 9.7.9.25.6).

A tensor map is a parameter of the kernel or an address in global memory; the coordinates name the
box's first element, the innermost dimension first. Sizes and addresses of bytes are multiples of 16.
A thread waits for its own groups only.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .registers import B16, B32, B64, PRED, RegType, TensorMapType, check
from .syntax import ZERO, integer

REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _check_map(given: SSAValue) -> None:
    check(
        given.type in (TensorMapType(), B64),
        f"expected a tensor map or its address of class b64, got {given.type}",
    )


# Coordinates of four rows: their column, and each row.
_GATHERED = 5


def _check_coords(coords: Sequence[SSAValue]) -> None:
    check(1 <= len(coords) <= 5, f"expected 1 to 5 coordinates, got {len(coords)}")


@irdl_op_definition
class TmaLoadOp(IRDLOperation):
    """Load a box to shared memory; its bytes are taken off the transaction count of a barrier (PTX
    ISA 9.7.9.25.5.2).

    `multicast` is a mask of the cluster's CTAs: each gets the box and the signal at the same
    offsets as the issuing one. `policy` is an L2 policy, as `ptx.createpolicy` makes. With `pair`
    the barrier is in the CTA itself or in the other one of its pair, as the address says
    (`.cta_group::2`). With offsets the map walks over pixels of images: those from the coordinates
    on, each moved by the offsets (PTX ISA 5.5.4, `.im2col`); there is one for each dimension but
    the first and the last. With `gather` the coordinates are a column and four rows, each with a box
    of its own, which lie in order in shared memory (PTX ISA 5.5.3.4, `.tile::gather4`).

    Example:

        ptx.kernel @k(%A: tensor_map, %s: b32, %x: b32) attributes {
          target = "sm_100a", threads = 32 : i32
        } {
          %p = ptx.elect
          %mask = ptx.imm 3 : b16
          ptx.tma.load [%s + 1024], %A[%x, %x], [%s] if %p : !ptx.tensor_map
          ptx.tma.load [%s], %A[%x], [%s + 8] multicast %mask if %p : !ptx.tensor_map
          ptx.tma.load [%s], %A[%x, %x, %x, %x], [%s] offsets [%mask, %mask] : !ptx.tensor_map
          ptx.tma.load [%s], %A[%x, %x, %x, %x, %x], [%s] gather : !ptx.tensor_map
        }
    """

    name = "ptx.tma.load"
    map = operand_def(TensorMapType | RegType)
    dst = operand_def(B32)
    barrier = operand_def(B32)
    coords = var_operand_def(B32)
    offsets = var_operand_def(B16)
    multicast = opt_operand_def(B16)
    policy = opt_operand_def(B64)
    pred = opt_operand_def(PRED)
    dst_offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    barrier_offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    pair = opt_prop_def(UnitAttr)
    gathers = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "` ` `[` $dst (`+` $dst_offset^)? `]` `,` $map `[` $coords `]` `,` "
        "`[` $barrier (`+` $barrier_offset^)? `]` (`offsets` `[` $offsets^ `]`)? "
        "(`gather` $gathers^)? (`multicast` $multicast^)? (`policy` $policy^)? (`if` $pred^)? "
        "attr-dict `:` type($map)"
    )

    def __init__(
        self,
        map: SSAValue,
        dst: SSAValue,
        barrier: SSAValue,
        coords: Sequence[SSAValue],
        dst_offset: int = 0,
        barrier_offset: int = 0,
        multicast: SSAValue | None = None,
        policy: SSAValue | None = None,
        pred: SSAValue | None = None,
        pair: bool = False,
        offsets: Sequence[SSAValue] = (),
        gathers: bool = False,
    ) -> None:
        super().__init__(
            operands=[map, dst, barrier, list(coords), list(offsets), multicast, policy, pred],
            properties={
                "dst_offset": integer(dst_offset),
                "barrier_offset": integer(barrier_offset),
                "pair": UnitAttr() if pair else None,
                "gathers": UnitAttr() if gathers else None,
            },
        )

    def verify_(self) -> None:
        _check_map(self.map)
        _check_coords(self.coords)
        if self.gathers is not None:
            check(
                len(self.coords) == _GATHERED and not self.offsets,
                f"expected a column and four rows to gather, got {len(self.coords)} coordinates "
                f"and {len(self.offsets)} offsets",
            )
        check(
            not self.offsets or len(self.offsets) == len(self.coords) - 2,
            f"expected an offset for each coordinate but the first and the last, got "
            f"{len(self.offsets)} for {len(self.coords)} coordinates",
        )


@irdl_op_definition
class TmaStoreOp(IRDLOperation):
    """Store a box from shared memory, or combine it with what is there, as part of a bulk group
    (PTX ISA 9.7.9.25.5.2, 9.7.9.25.5.3). What lies outside of the tensor is not written.

    Stores to shared memory by threads come before it with a `proxy.async` fence between.

    Example:

        ptx.kernel @k(%C: tensor_map, %s: b32, %x: b32) attributes {
          target = "sm_90a", threads = 32 : i32
        } {
          ptx.fence "proxy.async.shared::cta"
          %p = ptx.elect
          ptx.tma.store %C[%x, %x], [%s] if %p : !ptx.tensor_map
          ptx.tma.store %C[%x, %x], [%s + 4096] reduce "add" if %p : !ptx.tensor_map
          ptx.cp.async.bulk.commit_group
        }
    """

    name = "ptx.tma.store"
    map = operand_def(TensorMapType | RegType)
    src = operand_def(B32)
    coords = var_operand_def(B32)
    policy = opt_operand_def(B64)
    pred = opt_operand_def(PRED)
    src_offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    reduce = opt_prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$map `[` $coords `]` `,` `[` $src (`+` $src_offset^)? `]` (`reduce` $reduce^)? "
        "(`policy` $policy^)? (`if` $pred^)? attr-dict `:` type($map)"
    )

    def __init__(
        self,
        map: SSAValue,
        src: SSAValue,
        coords: Sequence[SSAValue],
        src_offset: int = 0,
        reduce: str | None = None,
        policy: SSAValue | None = None,
        pred: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[map, src, list(coords), policy, pred],
            properties={
                "src_offset": integer(src_offset),
                "reduce": None if reduce is None else StringAttr(reduce),
            },
        )

    def verify_(self) -> None:
        _check_map(self.map)
        _check_coords(self.coords)
        if self.reduce is not None:
            check(
                self.reduce.data in REDUCTIONS,
                f"expected a reduction ({', '.join(REDUCTIONS)}), got '{self.reduce.data}'",
            )


@irdl_op_definition
class TmaPrefetchOp(IRDLOperation):
    """Bring a box to L2 (PTX ISA 9.7.9.25.5.4).

    Example:

        ptx.kernel @k(%A: tensor_map, %x: b32) attributes {
          target = "sm_90a", threads = 32 : i32
        } {
          %p = ptx.elect
          ptx.tma.prefetch %A[%x, %x] if %p : !ptx.tensor_map
        }
    """

    name = "ptx.tma.prefetch"
    map = operand_def(TensorMapType | RegType)
    coords = var_operand_def(B32)
    pred = opt_operand_def(PRED)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = "$map `[` $coords `]` (`if` $pred^)? attr-dict `:` type($map)"

    def __init__(
        self, map: SSAValue, coords: Sequence[SSAValue], pred: SSAValue | None = None
    ) -> None:
        super().__init__(operands=[map, list(coords), pred])

    def verify_(self) -> None:
        _check_map(self.map)
        _check_coords(self.coords)


@irdl_op_definition
class PrefetchTensorMapOp(IRDLOperation):
    """Bring a tensor map to the cache from which copies read it (PTX ISA 9.7.9.17).

    Example:

        ptx.kernel @k(%A: tensor_map) attributes {target = "sm_90a", threads = 32 : i32} {
          %p = ptx.elect
          ptx.prefetch.tensormap %A if %p : !ptx.tensor_map
        }
    """

    name = "ptx.prefetch.tensormap"
    map = operand_def(TensorMapType | RegType)
    pred = opt_operand_def(PRED)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$map (`if` $pred^)? attr-dict `:` type($map)"

    def __init__(self, map: SSAValue, pred: SSAValue | None = None) -> None:
        super().__init__(operands=[map, pred])

    def verify_(self) -> None:
        _check_map(self.map)


@irdl_op_definition
class FenceTensorMapOp(IRDLOperation):
    """Later copies by this thread, and by those that a barrier orders behind it, see the tensor map
    at an address in global memory as the host or another kernel left it (PTX ISA 9.7.13.4).

    Example:

        ptx.kernel @k(%maps: b64) attributes {target = "sm_90a", threads = 32 : i32} {
          ptx.fence.tensormap %maps
        }
    """

    name = "ptx.fence.tensormap"
    map = operand_def(B64)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$map attr-dict"

    def __init__(self, map: SSAValue) -> None:
        super().__init__(operands=[map])


def _check_size(bytes: IntegerAttr | None, size: SSAValue | None) -> None:
    check(
        (bytes is None) != (size is None),
        "expected a size in bytes, either a constant or a register, got "
        + ("none" if bytes is None else "both"),
    )
    if bytes is not None:
        count = bytes.value.data
        check(
            count >= 0 and count % 16 == 0, f"expected a multiple of 16 bytes to copy, got {count}"
        )


def _check_offsets(*offsets: IntegerAttr) -> None:
    for offset in offsets:
        at = offset.value.data
        check(at % 16 == 0, f"expected offsets that are multiples of 16 bytes, got {at}")


@irdl_op_definition
class BulkLoadOp(IRDLOperation):
    """Load bytes to shared memory; they are taken off the transaction count of a barrier (PTX ISA
    9.7.9.25.4.1). `multicast` and `policy` are as of `ptx.tma.load`.

    Example:

        ptx.kernel @k(%a: b64, %s: b32, %n: b32) attributes {
          target = "sm_90a", threads = 32 : i32
        } {
          %p = ptx.elect
          ptx.bulk.load [%s + 1024], [%a + 64] bytes 256, [%s] if %p
          ptx.bulk.load [%s + 2048], [%a] size %n, [%s + 8] if %p
        }
    """

    name = "ptx.bulk.load"
    dst = operand_def(B32)
    src = operand_def(B64)
    size = opt_operand_def(B32)
    barrier = operand_def(B32)
    multicast = opt_operand_def(B16)
    policy = opt_operand_def(B64)
    pred = opt_operand_def(PRED)
    bytes = opt_prop_def(IntegerAttr[I64])
    dst_offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    src_offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    barrier_offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "` ` `[` $dst (`+` $dst_offset^)? `]` `,` `[` $src (`+` $src_offset^)? `]` "
        "(`bytes` $bytes^)? (`size` $size^)? `,` `[` $barrier (`+` $barrier_offset^)? `]` "
        "(`multicast` $multicast^)? (`policy` $policy^)? (`if` $pred^)? attr-dict"
    )

    def __init__(
        self,
        dst: SSAValue,
        src: SSAValue,
        size: int | SSAValue,
        barrier: SSAValue,
        dst_offset: int = 0,
        src_offset: int = 0,
        barrier_offset: int = 0,
        multicast: SSAValue | None = None,
        policy: SSAValue | None = None,
        pred: SSAValue | None = None,
    ) -> None:
        constant = isinstance(size, int)
        super().__init__(
            operands=[dst, src, None if constant else size, barrier, multicast, policy, pred],
            properties={
                "bytes": integer(size) if constant else None,
                "dst_offset": integer(dst_offset),
                "src_offset": integer(src_offset),
                "barrier_offset": integer(barrier_offset),
            },
        )

    def verify_(self) -> None:
        _check_size(self.bytes, self.size)
        _check_offsets(self.dst_offset, self.src_offset)


@irdl_op_definition
class BulkStoreOp(IRDLOperation):
    """Store bytes from shared memory, or combine them with what is there, as part of a bulk group
    (PTX ISA 9.7.9.25.4.1, 9.7.9.25.4.2).

    `reduce` is the operation and its type, as in `add.f32` or `add.noftz.bf16`.

    Example:

        ptx.kernel @k(%a: b64, %s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
          %p = ptx.elect
          ptx.bulk.store [%a], [%s + 64] bytes 256 if %p
          ptx.bulk.store [%a + 256], [%s] bytes 64 reduce "add.f32" if %p
          ptx.cp.async.bulk.commit_group
          ptx.cp.async.bulk.wait_group 0 read
        }
    """

    name = "ptx.bulk.store"
    dst = operand_def(B64)
    src = operand_def(B32)
    size = opt_operand_def(B32)
    policy = opt_operand_def(B64)
    pred = opt_operand_def(PRED)
    bytes = opt_prop_def(IntegerAttr[I64])
    dst_offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    src_offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    reduce = opt_prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "` ` `[` $dst (`+` $dst_offset^)? `]` `,` `[` $src (`+` $src_offset^)? `]` "
        "(`bytes` $bytes^)? (`size` $size^)? (`reduce` $reduce^)? (`policy` $policy^)? "
        "(`if` $pred^)? attr-dict"
    )

    def __init__(
        self,
        dst: SSAValue,
        src: SSAValue,
        size: int | SSAValue,
        dst_offset: int = 0,
        src_offset: int = 0,
        reduce: str | None = None,
        policy: SSAValue | None = None,
        pred: SSAValue | None = None,
    ) -> None:
        constant = isinstance(size, int)
        super().__init__(
            operands=[dst, src, None if constant else size, policy, pred],
            properties={
                "bytes": integer(size) if constant else None,
                "dst_offset": integer(dst_offset),
                "src_offset": integer(src_offset),
                "reduce": None if reduce is None else StringAttr(reduce),
            },
        )

    def verify_(self) -> None:
        _check_size(self.bytes, self.size)
        _check_offsets(self.dst_offset, self.src_offset)


@irdl_op_definition
class BulkCommitOp(IRDLOperation):
    """Close a group of this thread's bulk stores (PTX ISA 9.7.9.25.6.1).

    Example:

        ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
          ptx.cp.async.bulk.commit_group
        }
    """

    name = "ptx.cp.async.bulk.commit_group"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class BulkWaitOp(IRDLOperation):
    """Wait until at most `pending` groups of this thread are on their way; with `read` until their
    sources have been read and may be written again (PTX ISA 9.7.9.25.6.2).

    Example:

        ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
          ptx.cp.async.bulk.wait_group 1 read
          ptx.cp.async.bulk.wait_group 0
        }
    """

    name = "ptx.cp.async.bulk.wait_group"
    pending = prop_def(IntegerAttr[I64])
    read = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$pending (`read` $read^)? attr-dict"

    def __init__(self, pending: int, read: bool = False) -> None:
        super().__init__(
            properties={"pending": integer(pending), "read": UnitAttr() if read else None}
        )

    def verify_(self) -> None:
        pending = self.pending.value.data
        check(pending >= 0, f"expected a number of groups of 0 or more, got {pending}")
