"""`wgmma`: matrix products of a warpgroup with operands in shared memory (PTX ISA 9.7.15). The
accumulator and an A in registers belong to the instructions from their fence to a wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms.matrix_descriptor import MatrixDescriptor
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .arrays import check_index, entries, table
from .mnemonics import wgmma_form
from .registers import B64, PRED, RegsType, SmemDescType, check
from .syntax import integer

# The start address of a matrix descriptor, in units of 16 bytes, is below this.
ADDRESS_LIMIT = 1 << 14
# What one is of the leading offset in a descriptor.
_LEADING = 1 << 16


def _of_start(addend: int) -> int:
    """What an addend adds to the start address; itself if it does more than to take from the
    leading offset.
    """
    start, taken = addend % _LEADING, -(addend // _LEADING)
    return start if start < ADDRESS_LIMIT and 0 <= taken < ADDRESS_LIMIT else addend


@irdl_op_definition
class SmemDescOp(IRDLOperation):
    """The descriptor of a matrix that starts at an address in shared memory, `start` in units of
    16 bytes; of a type with `leading = ?` bits 16 to 29 are that offset, in the same units. One
    `or` with what the type says.

    Example:

        ptx.kernel @k(%start: b64) attributes {target = "sm_90a", threads = 128 : i32} {
          %d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
          %e = ptx.smem_desc %start : !ptx.smem_desc<wgmma, MN, 64B, leading = ?, stride = 512>
        }
    """

    name = "ptx.smem_desc"
    start = operand_def(B64)
    res = result_def(SmemDescType)
    traits = traits_def(Pure())
    assembly_format = "$start attr-dict `:` type($res)"

    def __init__(self, start: SSAValue, descriptor: MatrixDescriptor) -> None:
        super().__init__(operands=[start], result_types=[SmemDescType(descriptor)])


def check_operand(what: str, type_: Attribute, unit: str, is_mn: bool | None) -> None:
    """Raise VerifyException unless an operand is a descriptor for a unit, of the major that the
    instruction says (None: of any).
    """
    if not isinstance(type_, SmemDescType):
        raise VerifyException(f"expected a descriptor (!ptx.smem_desc) as {what}, got {type_}")
    check(type_.data.unit == unit, f"expected {what} by a descriptor for {unit}, got {type_}")
    wanted = "MN" if is_mn else "K"
    check(
        is_mn is None or type_.data.major == wanted,
        f"expected {what} by a descriptor that is {wanted}-major, as the instruction says, got "
        f"{type_}",
    )


@irdl_op_definition
class WgmmaOp(IRDLOperation):
    """`wgmma.mma_async`: D = A B + D, many instructions in a row (PTX ISA 9.7.15.5.2).

    Instruction i accumulates in the `counts[0]` registers from `c[i]`. A is in the `counts[1]`
    registers from `a[i]`, or behind a descriptor to which `a[i]` is added; `b[i]` is added to the
    descriptor of B. The addends move the start address, in units of 16 bytes; those of B may take
    as much or less from the leading offset (bits 16 to 29). `scale[i]` names a
    predicate of `scale_d` that is false where D starts from 0, or is -1 for always true.
    `immediates` follow: the signs of A and B, then for f16 and bf16 whether each is MN-major (of B
    alone if A is in registers); integers have none.

    Example:

        ptx.kernel @k(%start: b64, %p: b32) attributes {
          target = "sm_90a", threads = 128 : i32
        } {
          %d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
          %zero = ptx.imm 0 : b32
          %later = ptx.setp "ne.s32" %p, %zero : (b32, b32) -> pred
          %c = ptx.regs : !ptx.regs<f32 x 4>
          ptx.wgmma.fence
          ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %d, %d scale %later {
            counts = array<i64: 4, 0>, c = array<i64: 0, 0>, a = array<i64: 0, 2>,
            b = array<i64: 0, 2>, scale = array<i64: 0, -1>, immediates = array<i64: 1, 1, 0, 0>
          } : !ptx.regs<f32 x 4>,
            !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>,
            !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
          ptx.wgmma.commit_group
          ptx.wgmma.wait_group 0
        }
    """

    name = "ptx.wgmma.mma_async"
    modifiers = prop_def(StringAttr)
    acc = operand_def(RegsType)
    lhs = operand_def(RegsType | SmemDescType)
    rhs = operand_def(SmemDescType)
    scale_d = var_operand_def(PRED)
    counts = prop_def(DenseArrayBase)
    c = prop_def(DenseArrayBase)
    a = prop_def(DenseArrayBase)
    b = prop_def(DenseArrayBase)
    scale = opt_prop_def(DenseArrayBase)
    immediates = opt_prop_def(DenseArrayBase)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$modifiers `,` $acc `,` $lhs `,` $rhs (`scale` $scale_d^)? attr-dict `:` "
        "type($acc) `,` type($lhs) `,` type($rhs)"
    )

    def __init__(
        self,
        modifiers: str,
        acc: SSAValue,
        lhs: SSAValue,
        rhs: SSAValue,
        counts: Sequence[int],
        c: Sequence[int],
        a: Sequence[int],
        b: Sequence[int],
        scale_d: Sequence[SSAValue] = (),
        scale: Sequence[int] | None = None,
        immediates: Sequence[int] = (),
    ) -> None:
        super().__init__(
            operands=[acc, lhs, rhs, list(scale_d)],
            properties={
                "modifiers": StringAttr(modifiers),
                "counts": table(counts),
                "c": table(c),
                "a": table(a),
                "b": table(b),
                "scale": None if scale is None else table(scale),
                "immediates": table(immediates) if immediates else None,
            },
        )

    @property
    def count(self) -> int:
        """How many instructions it stands for."""
        return len(entries(self.c))

    def verify_(self) -> None:
        mnemonic = f"wgmma.mma_async.{self.modifiers.data}"
        form = wgmma_form(mnemonic)
        in_registers = isinstance(self.lhs.type, RegsType)
        assert isinstance(self.acc.type, RegsType)
        counts = tuple(entries(self.counts))
        wanted = (form.registers, 4 if in_registers else 0)
        check(counts == wanted, f"expected counts {wanted} for {mnemonic}, got {counts}")
        check(
            self.acc.type.cls == form.register_class,
            f"expected an accumulator of class {form.register_class} for {mnemonic}, got "
            f"{self.acc.type.cls}",
        )
        count = self.count
        check(count > 0, "expected at least one instruction, got none")
        for given in (self.a, self.b, self.scale):
            if given is not None:
                check(
                    len(entries(given)) == count,
                    f"expected {count} entries in each table, got {len(entries(given))}",
                )
        check_index("register", entries(self.c), self.acc.type.count - counts[0] + 1)
        check_index("addend", [_of_start(each) for each in entries(self.b)], ADDRESS_LIMIT)
        if isinstance(self.lhs.type, RegsType):
            check(
                self.lhs.type.cls == "b32",
                f"expected registers of class b32 for A, got {self.lhs.type.cls}",
            )
            check_index("register", entries(self.a), self.lhs.type.count - 3)
        else:
            check_index("addend", entries(self.a), ADDRESS_LIMIT)
        check_index("predicate", entries(self.scale), len(self.scale_d), -1)
        signs, majors = form.signs, form.majors - (in_registers and form.majors > 0)
        immediates = entries(self.immediates)
        check(
            len(immediates) == signs + majors
            and all(sign in (-1, 1) for sign in immediates[:signs])
            and all(major in (0, 1) for major in immediates[signs:]),
            f"expected {signs} signs (-1 or 1) and {majors} majors (0 or 1) for {mnemonic}, got "
            f"{tuple(immediates)}",
        )
        # Where the instruction has no majors, both are K.
        *of_a, of_b = immediates[signs:] or (0, 0)
        check_operand("B", self.rhs.type, "wgmma", bool(of_b))
        if not in_registers:
            check_operand("A", self.lhs.type, "wgmma", bool(*of_a))


@irdl_op_definition
class WgmmaFenceOp(IRDLOperation):
    """Order earlier accesses to the registers of the `wgmma` that follow (PTX ISA 9.7.15.7.1).

    Example:

        ptx.kernel @k() attributes {target = "sm_90a", threads = 128 : i32} {
          ptx.wgmma.fence
        }
    """

    name = "ptx.wgmma.fence"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class WgmmaCommitOp(IRDLOperation):
    """Close a group of `wgmma.mma_async` (PTX ISA 9.7.15.7.2).

    Example:

        ptx.kernel @k() attributes {target = "sm_90a", threads = 128 : i32} {
          ptx.wgmma.commit_group
          ptx.wgmma.wait_group 0
        }
    """

    name = "ptx.wgmma.commit_group"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class WgmmaWaitOp(IRDLOperation):
    """Wait until at most `pending` groups are on their way; the registers of the others may then be
    read and written (PTX ISA 9.7.15.7.3).

    Example:

        ptx.kernel @k() attributes {target = "sm_90a", threads = 128 : i32} {
          ptx.wgmma.wait_group 1
        }
    """

    name = "ptx.wgmma.wait_group"
    pending = prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$pending attr-dict"

    def __init__(self, pending: int) -> None:
        super().__init__(properties={"pending": integer(pending)})

    def verify_(self) -> None:
        pending = self.pending.value.data
        check(0 <= pending <= 7, f"expected a number of groups in 0..7, got {pending}")
