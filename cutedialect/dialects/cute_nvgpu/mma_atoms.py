"""MMA atoms: `mma.sync` of a warp, `wgmma` of a warpgroup, `tcgen05.mma` of one thread; and what
brackets multiplies of warpgroups: fence, commit, wait (PTX ISA 9.7.15.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import AnyFloat, Float32Type, IntegerAttr, IntegerType, StringAttr, i32
from xdsl.ir import Attribute, Data, SSAValue, TypeAttribute
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms import MmaAtom, mma_sync
from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom, tcgen05_of
from cutedialect.atoms.wgmma_atoms import WgmmaAtom, wgmma_of
from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import Effects, Unit
from cutedialect.dialects.element_names import element_name, operand_name

from .syntax import parse_key

# The majors of operands that every family has, which are not written.
ROW_COL = "TN"
# What the kinds of `mma.sync` with scales of blocks begin with.
_SCALED = "mx"


class MmaType(Data[tuple], TypeAttribute):
    """Base of the MMA atoms: shape (M, N, K) of one instruction and its element types."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K) of one instruction."""
        return self.data[0]

    @property
    def a(self) -> Attribute:
        return self.data[1]

    @property
    def b(self) -> Attribute:
        return self.data[2]

    @property
    def c(self) -> Attribute:
        return self.data[3]

    @classmethod
    def _parse_shape(cls, parser: AttrParser) -> tuple:
        """`16x8x16, elem_type = (f16, f16, f32)`."""
        start = parser.pos
        shape = tuple(parser.parse_dimension_list())
        if len(shape) != 3:
            parser.raise_error(f"expected a shape MxNxK, got {shape}", start, parser.pos)
        parser.parse_punctuation(",")
        parse_key(parser, "elem_type")
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        if len(types) != 3:
            parser.raise_error(f"expected types (a, b, c), got {len(types)}")
        return (shape, *types)

    @property
    def kind(self) -> str:
        """What tells the atom from others of its shape and types; empty for the one without."""
        raise NotImplementedError

    @property
    def majors(self) -> str:
        """The letters of A and B that the instruction takes: `TN` is `row.col`."""
        return ROW_COL

    @property
    def scaling(self) -> str:
        """The scales of blocks, such as `ue8m0x32`; empty without."""
        return ""

    def _print_shape(self, printer: Printer) -> None:
        printer.print_string("x".join(map(str, self.shape)) + ", elem_type = (")
        printer.print_list((self.a, self.b, self.c), printer.print_attribute)
        printer.print_string(")")

    def verify(self) -> None:
        for element in (self.a, self.b, self.c):
            check(
                isinstance(element, AnyFloat | IntegerType),
                f"expected element types, got {element}",
            )
        self.entry()

    def entry(self, target: str | None = None) -> MmaAtom:
        """The entry of the atom registry that this type names.

        Raises VerifyException when there is none, or none on `target`.
        """
        return _entry(self, target)

    def _registry(self, a: str, b: str) -> Sequence[MmaAtom]:
        """The atoms of the family, at least those for operands of two element types."""
        raise NotImplementedError


@lru_cache(maxsize=1024)
def _entry(type_: MmaType, target: str | None) -> MmaAtom:
    names = operand_name(type_.a), operand_name(type_.b), element_name(type_.c)
    typed = [atom for atom in type_._registry(*names[:2]) if tuple(atom.types[:3]) == names]
    shaped = _of_majors([atom for atom in typed if atom.shape_mnk == type_.shape], type_)
    found = [atom for atom in shaped if atom.kind == type_.kind]
    if shaped and not found:
        kinds = sorted({atom.kind or "no kind" for atom in shaped})
        check(
            False,
            f"expected {' or '.join(kinds)} for {shaped[0].name}, got {type_.kind or 'no kind'}",
        )
    if not found:
        near = sorted({"x".join(map(str, atom.shape_mnk)) for atom in typed})
        check(
            False,
            f"expected an mma of {' x '.join(names[:2])} into {names[2]} "
            f"({', '.join(near) or 'there is none'}), got {'x'.join(map(str, type_.shape))}",
        )
    if target is not None:
        here = [atom for atom in found if atom.is_legal_on(target)]
        check(
            bool(here),
            f"expected an mma that {target} has, got {found[0].name}, which needs "
            f"{found[0].requires}",
        )
        found = here
    return found[0]


def _of_majors(shaped: Sequence[MmaAtom], type_: MmaType) -> list[MmaAtom]:
    """The atoms of a shape that take the operands as the type says."""
    majors = dict.fromkeys(atom.majors for atom in shaped)
    found = [atom for atom in shaped if atom.majors == type_.majors]
    operands = f"{operand_name(type_.a)} x {operand_name(type_.b)}"
    check(
        bool(found) or not shaped,
        f"expected majors {' or '.join(majors)} for {'x'.join(map(str, type_.shape))} of "
        f"{operands} into {element_name(type_.c)}, got {type_.majors}",
    )
    return found


@irdl_attr_definition
class Sm80MmaType(MmaType):
    """`mma.sync`: `!cute_nvgpu.sm80.mma<16x8x16, elem_type = (f16, f16, f32)>`.

    `kind` tells atoms apart that agree in shape and types: `kind = satfinite` clamps sums of
    integers, `kind = xor` and `kind = and` say how single bits are multiplied, and `kind =
    mxf8f6f4`, `mxf4` and `mxf4nvf4` multiply blocks by their scales. `majors = NT` (`TT`,
    `NN`), which 8x8x4 of f16 alone has, says that A has its columns in registers of a thread, and B
    its rows: `col.row` of the instruction.
    """

    name = "cute_nvgpu.sm80.mma"

    @classmethod
    def get(
        cls,
        shape: tuple[int, int, int],
        a: Attribute,
        b: Attribute,
        c: Attribute,
        kind: str = "",
        majors: str = ROW_COL,
    ) -> Sm80MmaType:
        return cls((tuple(shape), a, b, c, kind, majors))

    @property
    def kind(self) -> str:
        return self.data[4]

    @property
    def majors(self) -> str:
        return self.data[5]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        kind, majors = "", ROW_COL
        with parser.in_angle_brackets():
            shape = cls._parse_shape(parser)
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("majors"):
                    parser.parse_punctuation("=")
                    majors = parser.parse_identifier()
                else:
                    parse_key(parser, "kind")
                    kind = parser.parse_identifier()
        return (*shape, kind, majors)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self._print_shape(printer)
            if self.majors != ROW_COL:
                printer.print_string(f", majors = {self.majors}")
            if self.kind:
                printer.print_string(f", kind = {self.kind}")

    @property
    def scaling(self) -> str:
        return self.entry().scaling if self.kind.startswith(_SCALED) else ""

    def _registry(self, a: str, b: str) -> Sequence[MmaAtom]:
        if not self.kind.startswith(_SCALED):
            return mma_sync()
        from cutedialect.atoms.block_scaled_atoms import block_scaled

        return block_scaled()


A_SOURCES = ("smem", "rmem")
NEGATIONS = ("a", "b", "ab")


@irdl_attr_definition
class Sm90MmaType(MmaType):
    """`wgmma`: `!cute_nvgpu.sm90.mma<64x256x16, elem_type = (f16, f16, f32), a = smem>`.

    B lies in shared memory, A there or in registers (`a = rmem`). Asynchronous: what it reads and
    its accumulator belong to it until `cute_nvgpu.wgmma_wait`. With `negate = a` (`b`, `ab`) those
    operands count with the other sign, which floats alone can; with `scale_d = 0` the products
    take the place of what the accumulator holds, instead of being added to it. `kind = satfinite`
    clamps sums of integers.
    """

    name = "cute_nvgpu.sm90.mma"
    unit = Unit.WGMMA

    @classmethod
    def get(
        cls,
        shape: tuple[int, int, int],
        a: Attribute,
        b: Attribute,
        c: Attribute,
        a_source: str = "smem",
        negate: str | None = None,
        scale_d: int = 1,
        kind: str = "",
    ) -> Sm90MmaType:
        return cls((tuple(shape), a, b, c, a_source, negate, scale_d, kind))

    @property
    def a_source(self) -> str:
        """Where A is: `smem` or `rmem`."""
        return self.data[4]

    @property
    def negate(self) -> str | None:
        """The operands whose sign changes: `a`, `b`, `ab` or None."""
        return self.data[5]

    @property
    def scale_d(self) -> int:
        """0 where the accumulator starts from nothing, else 1."""
        return self.data[6]

    @property
    def kind(self) -> str:
        return self.data[7]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        negate, scale, kind = None, 1, ""
        with parser.in_angle_brackets():
            shape = cls._parse_shape(parser)
            parser.parse_punctuation(",")
            parse_key(parser, "a")
            source = parser.parse_identifier()
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("negate"):
                    parser.parse_punctuation("=")
                    negate = parser.parse_identifier()
                elif parser.parse_optional_keyword("kind"):
                    parser.parse_punctuation("=")
                    kind = parser.parse_identifier()
                else:
                    parse_key(parser, "scale_d")
                    scale = parser.parse_integer(allow_boolean=False)
        return (*shape, source, negate, scale, kind)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self._print_shape(printer)
            printer.print_string(f", a = {self.a_source}")
            if self.negate is not None:
                printer.print_string(f", negate = {self.negate}")
            if self.scale_d != 1:
                printer.print_string(f", scale_d = {self.scale_d}")
            if self.kind:
                printer.print_string(f", kind = {self.kind}")

    def verify(self) -> None:
        check(
            self.a_source in A_SOURCES,
            f"expected operand a in {' or '.join(A_SOURCES)}, got {self.a_source}",
        )
        check(
            self.negate is None or self.negate in NEGATIONS,
            f"expected negate = {' or '.join(NEGATIONS)}, got {self.negate}",
        )
        check(self.scale_d in (0, 1), f"expected scale_d = 0 or 1, got {self.scale_d}")
        super().verify()
        try:
            self.immediates("K", "K")
        except ValueError as error:
            raise VerifyException(str(error)) from error

    def immediates(self, a_major: str, b_major: str) -> tuple[int, ...]:
        """The integers after scale-d for operands of these majors.

        Raises ValueError for what the instruction cannot do.
        """
        atom = self.entry()
        assert isinstance(atom, WgmmaAtom)
        negate = self.negate or ""
        return atom.immediates(
            a_space=self.a_source,
            a_major=a_major,
            b_major=b_major,
            negate_a="a" in negate,
            negate_b="b" in negate,
        )

    def _registry(self, a: str, b: str) -> Sequence[MmaAtom]:
        return wgmma_of(a, b)


@irdl_attr_definition
class Sm100MmaType(MmaType):
    """`tcgen05.mma`: `!cute_nvgpu.sm100.mma<128x256x16, elem_type = (f16, f16, f32)>`.

    A lies in shared or tensor memory, B in shared memory, the accumulator in tensor memory.
    Asynchronous: one thread issues it, and what it reads and its accumulator belong to it until a
    commit behind it has signaled. With `cta_group = 2` it is one of a CTA pair, of which M and N count both.
    With `scaling = "ue8m0x32"` each 32 elements of K of a row count times a scale of type ue8m0.
    """

    name = "cute_nvgpu.sm100.mma"
    unit = Unit.TCGEN05

    @classmethod
    def get(
        cls,
        shape: tuple[int, int, int],
        a: Attribute,
        b: Attribute,
        c: Attribute,
        cta_group: int = 1,
        scaling: str = "",
    ) -> Sm100MmaType:
        return cls((tuple(shape), a, b, c, cta_group, scaling))

    @property
    def cta_group(self) -> int:
        """1, or 2 for an instruction of a CTA pair."""
        return self.data[4]

    @property
    def scaling(self) -> str:
        """The scales of blocks; empty without."""
        return self.data[5]

    @property
    def kind(self) -> str:
        """Empty: the types tell these atoms apart."""
        return ""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        group, scaling = 1, ""
        with parser.in_angle_brackets():
            shape = cls._parse_shape(parser)
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("scaling"):
                    parser.parse_punctuation("=")
                    scaling = parser.parse_str_literal()
                else:
                    parse_key(parser, "cta_group")
                    group = parser.parse_integer(allow_boolean=False)
        return (*shape, group, scaling)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self._print_shape(printer)
            if self.cta_group != 1:
                printer.print_string(f", cta_group = {self.cta_group}")
            if self.scaling:
                printer.print_string(f', scaling = "{self.scaling}"')

    def verify(self) -> None:
        check(self.cta_group in (1, 2), f"expected cta_group = 1 or 2, got {self.cta_group}")
        super().verify()

    def entry(self, target: str | None = None) -> Tcgen05Atom:
        """The entry of the atom registry; VerifyException when there is none, or none on `target`."""
        names = operand_name(self.a), operand_name(self.b), element_name(self.c)
        try:
            atom = tcgen05_of(*names, self.shape, self.cta_group, self.scaling)
        except ValueError as error:
            raise VerifyException(str(error)) from error
        if target is not None:
            check(
                atom.is_legal_on(target),
                f"expected an mma that {target} has, got {atom.name}, which needs {atom.requires}",
            )
        return atom


@irdl_op_definition
class WgmmaFenceOp(IRDLOperation):
    """Earlier accesses to accumulators and A registers come before the multiplies that follow.

    Example:

        cute.kernel @k() {
          cute_nvgpu.wgmma_fence
        }
    """

    name = "cute_nvgpu.wgmma_fence"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def effects(self) -> Effects:
        return Effects(orders=True, fences=True, team=4)


@irdl_op_definition
class RoundToTf32Op(IRDLOperation):
    """A register tile of f32 rounded to tf32, in registers of its own: what a warpgroup multiplies
    from registers, since tensor cores would cut the low 13 bits off (PTX ISA 9.7.14.5). A
    `wgmma_fence` comes between this op and the multiply.

    Example:

        cute.kernel @k(%x: f32) {
          %a = cute.alloc_fragment : !cute.fragment<f32, "(64,8)">
          cute.fill %a, %x : !cute.fragment<f32, "(64,8)">
          %r = cute_nvgpu.round_to_tf32 %a : !cute.fragment<f32, "(64,8)"> -> !cute.fragment<f32, "(64,8)">
          cute_nvgpu.wgmma_fence
        }
    """

    name = "cute_nvgpu.round_to_tf32"
    source = operand_def()
    result = result_def()
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue) -> None:
        super().__init__(operands=[source], result_types=[source.type])

    def effects(self) -> Effects:
        return Effects(reads=(self.source,))

    def verify_(self) -> None:
        is_tile = getattr(self.source.type, "space", None) == "rmem"
        element = getattr(self.source.type, "element", None)
        check(self.result.type == self.source.type, "expected a result of the type of the source")
        check(
            is_tile and isinstance(element, Float32Type),
            f"expected a register tile of f32, got {self.source.type}",
        )


@irdl_op_definition
class WriteOnesOp(IRDLOperation):
    """Threads of the CTA write ones to a tile of shared memory, from which multiplies with `sums`
    of elements of its type read columns that add up the rows of A. A proxy fence and a meeting of
    all come between this op and the first of them.

    Example:

        cute.kernel @k() {
          %ones = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(1024):(1)">
          cute_nvgpu.write_ones %ones : !cute.memref<f16, smem, align<128>, "(1024):(1)">
          cute_nvgpu.fence_proxy_async
          pipeline.start
        }
    """

    name = "cute_nvgpu.write_ones"
    tile = operand_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$tile attr-dict `:` type($tile)"

    def __init__(self, tile: SSAValue) -> None:
        super().__init__(operands=[tile])

    def effects(self) -> Effects:
        return Effects(writes=(self.tile,))

    def verify_(self) -> None:
        check(
            getattr(self.tile.type, "space", None) == "smem",
            f"expected a tile of shared memory, got {self.tile.type}",
        )


@irdl_op_definition
class Tcgen05FenceOp(IRDLOperation):
    """Orders `tcgen05` instructions of threads that signal each other: those `before` an arrival,
    or those `after` a wait (PTX ISA 9.7.16.6.3).

    Example:

        cute.kernel @k() {
          cute_nvgpu.tcgen05_fence "before"
        }
    """

    name = "cute_nvgpu.tcgen05_fence"
    side = prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$side attr-dict"

    def __init__(self, side: str) -> None:
        super().__init__(properties={"side": StringAttr(side)})

    @property
    def is_before(self) -> bool:
        """Whether it stands in front of an arrival."""
        return self.side.data == "before"

    def effects(self) -> Effects:
        return Effects(orders=True, fences=True)

    def verify_(self) -> None:
        if self.side.data not in ("before", "after"):
            raise VerifyException(f"expected before or after, got '{self.side.data}'")


@irdl_op_definition
class WgmmaCommitOp(IRDLOperation):
    """The multiplies since the last commit become one group.

    Example:

        cute.kernel @k() {
          cute_nvgpu.wgmma_commit
        }
    """

    name = "cute_nvgpu.wgmma_commit"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def effects(self) -> Effects:
        return Effects(orders=True, closes=Unit.WGMMA, team=4)


@irdl_op_definition
class WgmmaWaitOp(IRDLOperation):
    """Wait until at most `pending` groups are on their way.

    What is computed `after` is complete before: the assembler moves a wait up over arithmetic that
    nothing ties to it, and the tensor cores then work alone.

    Example:

        cute.kernel @k() {
          %t = cute.alloc_fragment : !cute.fragment<f32, "(64,1)", "((4,8,4),2):((0,1,16),8)">
          cute_nvgpu.wgmma_wait {pending = 1 : i32}
          cute_nvgpu.wgmma_wait {pending = 0 : i32} after %t : !cute.fragment<f32, "(64,1)", "((4,8,4),2):((0,1,16),8)">
        }
    """

    name = "cute_nvgpu.wgmma_wait"
    after = var_operand_def()
    pending = prop_def(IntegerAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict (`after` $after^ `:` type($after))?"

    def __init__(self, pending: int, after: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[list(after)], properties={"pending": IntegerAttr(pending, i32)})

    def effects(self) -> Effects:
        return Effects(orders=True, completes=Unit.WGMMA, team=4)

    def verify_(self) -> None:
        pending = self.pending.value.data
        check(0 <= pending <= 7, f"expected 0 to 7 groups on their way, got {pending}")
