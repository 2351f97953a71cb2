"""Ops on tiles that read, compute or store: copies, matrix multiply, elementwise and reductions.

Unbound ops speak of whole tiles; once `cute-partition` has bound them, fragments carry their
thread-value layouts and `copy` and `gemm` name the atom they are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.operations import BeforeVariadicSingleAccessor, VarIRConstruct
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms import mma_atom
from cutedialect.atoms.tiled_mma import atom_name
from cutedialect.dialects.checks import check, check_signs
from cutedialect.dialects.cute_nvgpu import (
    BulkCopyType,
    CopyType,
    MmaType,
    OperandCopyType,
    TmaDescriptorType,
    TmaLoadType,
    TmaStoreType,
)
from cutedialect.dialects.cute_nvgpu.mma_atoms import NEGATIONS, Sm90MmaType, Sm100MmaType
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import Effects, space_of, team_of, unit_of

from .attributes import TiledCopyAttr, with_attributes
from .storage import check_tiled
from .types import FragmentType, MemRefType, fragment_of
from .views import arch_of, element_of, names_of, same_element, same_tile, shape_of

SUM_COLUMNS = 8
"""Columns that add up the rows of A where a multiply has `sums`: as many as the narrowest one."""
SCALINGS = {"ue8m0x32": 32, "ue4m3x16": 16}
"""The scales of blocks that a multiply takes, and how many elements share one."""
SIX, HELD_TOGETHER = 6, 128
"""Bits of elements that bytes hold without gaps, and how many of a row TMA brings at once."""
HELD = {"e2m3": Float6E2M3FNType(), "e3m2": Float6E3M2FNType()}
"""The types of such elements."""
PANEL_ROWS, PANEL_COLUMNS, PANEL_WORDS = 128, 4, 64
"""Rows, columns and words of a panel of scales: 512 bytes, which `tcgen05.cp` copies at once."""
PANEL_LANES, PANEL_GROUPS = 32, 4
"""Rows of a panel as (lanes, groups): row r is row r % 32 of group r / 32. The four scales of a row
are a word of 32 bits; those of the groups lie beside each other.
"""


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copy a tile between memories, or between memory and registers.

    `atom` names the instruction it is made of, and `tiled` the tiled copy: which thread copies which
    elements, needed where neither side is a fragment, whose type says so. With `if %p` nothing is copied unless the (CTA-uniform) condition
    holds; with `mask %c`, a tile of conditions, threads store the elements for which it holds. A TMA
    copy names its tensor map (`tma`), and a TMA load the barrier that it signals. A copy that shifts
    within shared memory names the tile `of` global memory that the source holds.

    Example:

        cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
          %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
          cute.copy %a, %s {tiled = #cute.tiled_copy<"((8,16),4):((64,1),16)", tiler = "(16,32)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
        }
    """

    name = "cute.copy"
    source = operand_def()
    destination = operand_def()
    pred = opt_operand_def(i1)
    mask = opt_operand_def(FragmentType)
    descriptor = opt_operand_def(TmaDescriptorType)
    barrier = opt_operand_def()
    origin = opt_operand_def(MemRefType)
    atom = opt_prop_def()
    tiled = opt_prop_def(TiledCopyAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$source `,` $destination (`if` $pred^)? (`mask` $mask^ `:` type($mask))? "
        "(`tma` $descriptor^ `:` type($descriptor))? "
        "(`signal` $barrier^ `:` type($barrier))? (`of` $origin^ `:` type($origin))? attr-dict `:` "
        "type($source) `->` type($destination)"
    )

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        pred: SSAValue | None = None,
        atom: Attribute | None = None,
        tiled: TiledCopyAttr | None = None,
        descriptor: SSAValue | None = None,
        barrier: SSAValue | None = None,
        mask: SSAValue | None = None,
        origin: SSAValue | None = None,
    ) -> None:
        given = (pred, mask, descriptor, barrier, origin)
        properties: dict[str, Attribute] = {
            "operandSegmentSizes": _segments(tuple(each is not None for each in given))
        }
        if atom is not None:
            properties["atom"] = atom
        if tiled is not None:
            properties["tiled"] = tiled
        operands = [source, destination, *(each for each in given if each is not None)]
        Operation.__init__(self, operands=operands, properties=properties)

    def effects(self) -> Effects:
        source, destination, *others = self.operands
        mask = self.mask if others else None
        reads = (source,) if mask is None else (source, mask)
        atom = self.properties.get("atom")
        return Effects(reads, (destination,), unit_of(atom), team=team_of(atom))

    def verify_(self) -> None:
        spreads = self.spreads
        if isinstance(self.atom, TmaLoadType) and (self.atom.is_paired or spreads):
            self._check_half()
        else:
            same_tile(self.source.type, self.destination.type)
        if self.mask is not None:
            self._check_mask(self.mask.type)
        if isinstance(self.atom, OperandCopyType) and self.atom.form == "convert":
            elements = tuple(element_of(each.type) for each in (self.source, self.destination))
            check(
                isinstance(elements[0], Float8E4M3FNType | Float8E5M2Type)
                and elements[1] == self.atom.element,
                f"expected floats of 8 bits to convert to {self.atom.element}, got tiles of "
                f"{names_of(elements)}",
            )
        elif not spreads:
            same_element(self.source.type, self.destination.type)
        if isinstance(self.atom, TmaLoadType | TmaStoreType):
            check(
                self.descriptor is not None,
                "expected a tensor map (tma %t) with a TMA atom, got none",
            )
        if isinstance(self.atom, CopyType):
            source, destination = (space_of(side) or "" for side in (self.source, self.destination))
            map_ = self.descriptor.type if self.descriptor is not None else None
            rank = len(map_.box) if isinstance(map_, TmaDescriptorType) else 2
            self.atom.entry(source, destination, arch_of(self), rank)
        if isinstance(self.atom, BulkCopyType):
            check(
                self.descriptor is None,
                "expected no tensor map with a bulk copy (TMA atoms take one), got one",
            )
            self.atom.check_tiles(self.source.type, self.destination.type)
        check_tiled(self.tiled, self.source, self.destination)

    @property
    def spreads(self) -> bool:
        """Whether TMA brings elements that bytes hold without gaps, each to a place of its own."""
        map_ = self.descriptor.type if self.descriptor is not None else None
        return isinstance(map_, TmaDescriptorType) and map_.is_packed

    def counted(self, size: int) -> int:
        """The bytes that TMA counts of so many in shared memory: none of the gaps between elements
        that it spreads.
        """
        return size * SIX // 8 if self.spreads else size

    def _check_half(self) -> None:
        """Each CTA of a pair keeps half of the rows; before the roles part it has both."""
        whole, mine = shape_of(self.source.type), shape_of(self.destination.type)
        if self.spreads:
            whole = whole[0], whole[1] * 8 // SIX  # pyright: ignore[reportOperatorIssue]
        check(
            len(whole) == len(mine) == 2
            and whole[1] == mine[1]
            and whole[0] in (mine[0], 2 * mine[0]),  # pyright: ignore[reportOperatorIssue]
            f"expected a tile or half of its rows in shared memory, got {whole} -> {mine}",
        )

    def _check_mask(self, mask: Attribute) -> None:
        source, destination = self.source.type, self.destination.type
        check(
            isinstance(source, FragmentType) and isinstance(destination, MemRefType),
            f"expected a mask on a store of a register tile, got {source} -> {destination}",
        )
        assert isinstance(source, FragmentType)
        assert isinstance(mask, FragmentType)
        check(
            mask.element == i1 and mask.shape == source.shape and mask.tv == source.tv,
            f"expected a mask of i1 with the shape and layout of {source}, got {mask}",
        )


@lru_cache(maxsize=32)
def _segments(are_given: tuple[bool, ...]) -> DenseArrayBase:
    """How many operands a copy has of each kind: a source, a destination, then what is given."""
    return DenseArrayBase.from_list(i32, [1, 1, *map(int, are_given)])


# Every pass asks for the operands in front of those that may be absent. xDSL would add up the sizes
# of what stands before them each time.
CopyOp.source = BeforeVariadicSingleAccessor(VarIRConstruct.OPERAND, 0)
CopyOp.destination = BeforeVariadicSingleAccessor(VarIRConstruct.OPERAND, 1)


@irdl_op_definition
class GemmOp(IRDLOperation):
    """acc(m,n) += sum over k of a(m,k) * b(n,k).

    Modes are CuTe's: A is (M,K), B is (N,K), the accumulator (M,N). Operands are tiles in memory
    or in registers, and 8-bit floats in memory beside 16-bit ones are converted to these; once
    bound, `atom` is the MMA atom, and operands and accumulator are where it wants them. Before,
    `atom` may be the name of the one that `cute-partition` is to take, and `negate` says which
    operands (`a`, `b`, `ab`) count with the other sign. With `keeps %p` the accumulator counts only
    if the (CTA-uniform) condition holds, else it starts from 0. With `sums` the accumulator has 8
    columns more than B has rows, each of which adds up the rows of A. An accumulator (M,N,S) has S
    slices: each adds up the products of one of S equal parts of K (sliced K). On whole tensors in
    gmem it stands for the whole problem C = A B^T, which `cute-tile` makes a tile program.

    With `factors %sa, %sb` and `scaling = "ue8m0x32"` each 32 elements of a row of A and of B count
    times a scale of type ue8m0. Scales lie in panels of 128 rows and 4 columns (PTX ISA 9.7.16.10.7
    and `tcgen05.cp`), as words of 64 bits: (panels of rows, 64 words for each panel of columns). Once bound, these are in shared memory, and a third factor has the columns of tensor
    memory to which the thread that multiplies copies them, and which nothing else reads. Words
    of 32 bits, the scales of a row each (panels of rows, 128 words for each panel of columns),
    stand for the same where threads bring them to registers, a panel of columns at a time: a
    multiply of `mma.sync` takes the scales of a row from `first_scale` of its word on. Operands
    of 8-bit integers are pairs of e2m1, the first in the low half, and have half of the columns;
    with `held = "e2m3 e3m2"` they hold such elements of 6 bits, four in three bytes, with scales or
    without, and lie along K: TMA spreads them where tensor cores read them.

    Example:

        cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(128,32):(32,1)">,
                       %b: !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">) {
          %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,64)">
          cute.gemm %a, %b, %acc : !cute.memref<f16, gmem, align<16>, "(128,32):(32,1)">,
            !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, !cute.fragment<f32, "(128,64)">
          cute.gemm %a, %b, %acc {atom = "mma_m16n8k8_f32_f16", negate = "a"} :
            !cute.memref<f16, gmem, align<16>, "(128,32):(32,1)">,
            !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, !cute.fragment<f32, "(128,64)">
          %both = cute.alloc_fragment : !cute.fragment<f32, "(128,72)">
          cute.gemm %a, %b, %both {sums} : !cute.memref<f16, gmem, align<16>, "(128,32):(32,1)">,
            !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, !cute.fragment<f32, "(128,72)">
          %parts = cute.alloc_fragment : !cute.fragment<f32, "(128,64,2)">
          cute.gemm %a, %b, %parts : !cute.memref<f16, gmem, align<16>, "(128,32):(32,1)">,
            !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, !cute.fragment<f32, "(128,64,2)">
        }

        cute.kernel @scaled(%a: !cute.memref<f8E4M3FN, gmem, align<16>, "(128,128):(128,1)">,
                            %s: !cute.memref<i64, gmem, align<16>, "(1,64):(64,1)">) {
          %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
          cute.gemm %a, %a, %acc factors %s, %s {scaling = "ue8m0x32"} :
            !cute.memref<f8E4M3FN, gmem, align<16>, "(128,128):(128,1)">,
            !cute.memref<f8E4M3FN, gmem, align<16>, "(128,128):(128,1)">,
            !cute.fragment<f32, "(128,128)">,
            !cute.memref<i64, gmem, align<16>, "(1,64):(64,1)">,
            !cute.memref<i64, gmem, align<16>, "(1,64):(64,1)">
        }
    """

    name = "cute.gemm"
    a = operand_def()
    b = operand_def()
    acc = operand_def()
    keeps = opt_operand_def(i1)
    factors = var_operand_def()
    atom = opt_prop_def()
    negate = opt_prop_def(StringAttr)
    sums = opt_prop_def(UnitAttr)
    scaling = opt_prop_def(StringAttr)
    first_scale = opt_prop_def(IntegerAttr)
    held = opt_prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$a `,` $b `,` $acc (`keeps` $keeps^)? (`factors` $factors^)? attr-dict `:` type($a) `,` "
        "type($b) `,` type($acc) (`,` type($factors)^)?"
    )

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        acc: SSAValue,
        atom: Attribute | None = None,
        negate: str | None = None,
        keeps: SSAValue | None = None,
        sums: bool = False,
        factors: Sequence[SSAValue] = (),
        scaling: str | None = None,
        first_scale: int = 0,
        held: str | None = None,
    ) -> None:
        super().__init__(
            operands=[a, b, acc, keeps, list(factors)],
            properties={
                "atom": atom,
                "negate": None if negate is None else StringAttr(negate),
                "sums": UnitAttr() if sums else None,
                "scaling": None if scaling is None else StringAttr(scaling),
                "first_scale": IntegerAttr(first_scale, i32) if first_scale else None,
                "held": None if held is None else StringAttr(held),
            },
        )

    def like(
        self,
        a: SSAValue,
        b: SSAValue,
        acc: SSAValue,
        atom: Attribute | None,
        keeps: SSAValue | None = None,
        factors: Sequence[SSAValue] | None = None,
        first_scale: int = 0,
    ) -> GemmOp:
        """The multiply of other operands with the same scaling; factors that are left out stay."""
        factors = self.factors if factors is None else factors
        given = {"keeps": keeps, "factors": factors, "first_scale": first_scale}
        is_held = isinstance(element_of(a.type), IntegerType) and self.held is not None
        held = self.held.data if self.held is not None and is_held else None
        return GemmOp(a, b, acc, atom, scaling=self.scales, held=held, **given)

    @property
    def first_factor(self) -> int:
        """Which scale of a word in registers is the first one of a row."""
        return 0 if self.first_scale is None else self.first_scale.value.data

    @property
    def has_pairs(self) -> bool:
        """Whether a byte of the operands holds two elements of 4 bits."""
        is_integer = isinstance(element_of(self.a.type), IntegerType)
        return self.scaling is not None and is_integer and self.held is None

    @property
    def packs(self) -> bool:
        """Whether bytes hold more than an element each."""
        return self.has_pairs or self.held is not None

    def held_element(self, value: SSAValue) -> Attribute | None:
        """The elements of 6 bits that the bytes of an operand hold; None of others."""
        if self.held is None or not isinstance(element_of(value.type), IntegerType):
            return None
        names = self.held.data.split()
        return HELD[names[value is not self.a]]

    @property
    def depth(self) -> Any:
        """How many elements along K the operands have; of a tensor that may be its type's mark of a
        run-time extent.
        """
        columns = shape_of(self.a.type)[1]
        if not isinstance(columns, int) or not isinstance(element_of(self.a.type), IntegerType):
            return columns
        return columns * 8 // SIX if self.held is not None else columns * (1 + self.has_pairs)

    @property
    def scales(self) -> str | None:
        """The type of scales and how many elements share one, such as `ue8m0x32`; None without."""
        return None if self.scaling is None else self.scaling.data

    @property
    def is_paired(self) -> bool:
        """Whether it is a multiply of a CTA pair."""
        return isinstance(self.atom, Sm100MmaType) and self.atom.cta_group == 2

    @property
    def asked(self) -> str | None:
        """The name of the atom, or the text of the TiledMMA, that the program asks for."""
        return self.atom.data if isinstance(self.atom, StringAttr) else None

    @property
    def negated(self) -> str:
        """The operands that count with the other sign: those of `negate`, or of the bound atom."""
        if isinstance(self.atom, Sm90MmaType):
            return self.atom.negate or ""
        return self.negate.data if self.negate is not None else ""

    @property
    def kind(self) -> str:
        """The kind of the atom that is asked for or bound; empty where there is none."""
        if isinstance(self.atom, MmaType):
            return self.atom.kind
        return mma_atom(atom_name(self.asked)).kind if self.asked is not None else ""

    @property
    def columns_of_sums(self) -> int:
        """How many columns of the accumulator add up the rows of A."""
        return 0 if self.sums is None else SUM_COLUMNS

    @property
    def slices(self) -> int:
        """How many parts of K the accumulator has a sum of each of."""
        shape = shape_of(self.acc.type)
        return shape[2] if len(shape) > 2 else 1

    @property
    def is_whole_problem(self) -> bool:
        """Whether the accumulator is a tensor in global memory."""
        return isinstance(self.acc.type, MemRefType) and self.acc.type.space == "gmem"

    def effects(self) -> Effects:
        a, b, acc, *others = self.operands  # names decode the segments at each access
        reads = (a, b, acc, *(self.factors[:2] if others else ()))
        return Effects(reads, (acc,), unit_of(self.properties.get("atom")))

    def verify_(self) -> None:
        self._verify_shapes()
        for value in (self.a, self.b):
            check(
                not isinstance(value.type, FragmentType) or value.type.bits > 1,
                f"expected operands of numbers, got {value.type}, whose conditions are predicates",
            )
        check(
            self.sums is None or not self.is_whole_problem,
            f"expected an accumulator in registers with sums, got {self.acc.type}",
        )
        if self.negated:
            a, b = element_of(self.a.type), element_of(self.b.type)
            check_signs(self.negated, a, b, has_sums=self.sums is not None)
        check(
            self.keeps is None or space_of(self.acc) == "tmem",
            f"expected an accumulator in tensor memory with keeps, got {self.acc.type}",
        )
        if self.scaling is not None or self.factors:
            from .block_scales import verify_scaling

            verify_scaling(self)
        self._verify_atom()

    def _verify_shapes(self) -> None:
        a, b, c = (shape_of(value.type) for value in (self.a, self.b, self.acc))
        if self.held is not None:
            from .block_scales import verify_held

            verify_held(self)
        most = 3 if isinstance(self.acc.type, FragmentType) else 2
        check(
            len(a) == len(b) == 2 <= len(c) <= most,
            "expected tiles of rank 2 (an accumulator in registers may have slices as a third "
            f"mode), got shapes {a}, {b} and {c}",
        )
        check(
            self.slices == 1 or (isinstance(a[1], int) and a[1] % self.slices == 0),
            f"expected K to be a multiple of the accumulator's {self.slices} slices, got {a[1]}",
        )
        check(
            _fit(a[0], c[0])
            and (_fit(b[0], self._products(c[1])) or self._is_half(b[0], c[1]))
            and _fit(a[1], b[1]),
            f"expected a (M,K), b (N,K) and acc (M,N{' + 8' if self.sums else ''}), got {a}, {b} "
            f"and {c}",
        )

    def _verify_atom(self) -> None:
        """The atom that is asked for, or bound."""
        if self.asked is not None:
            try:
                mma_atom(atom_name(self.asked))
            except ValueError as error:
                raise VerifyException(str(error)) from error
        if self.negate is not None:
            check(
                self.negate.data in NEGATIONS and not isinstance(self.atom, MmaType),
                f"expected negate = {' or '.join(NEGATIONS)} before an atom is bound, got "
                f"{self.negate.data}",
            )
        if isinstance(self.atom, MmaType):
            if self.scaling is not None or self.atom.scaling or self.first_factor:
                from .block_scales import verify_scaled_atom

                verify_scaled_atom(self)
            elements = tuple(element_of(value.type) for value in (self.a, self.b, self.acc))
            if self.has_pairs:
                elements = Float4E2M1FNType(), Float4E2M1FNType(), elements[2]
            atom = self.atom.a, self.atom.b, self.atom.c
            check(
                elements == atom,
                f"expected operands of the atom's types {names_of(atom)}, got {names_of(elements)}",
            )
            self.atom.entry(arch_of(self))

    def _products(self, columns: object) -> object:
        """The columns of the accumulator that are products."""
        return columns - self.columns_of_sums if isinstance(columns, int) else columns

    def _is_half(self, mine: object, whole: object) -> bool:
        """Whether a CTA of a pair holds its half of B's rows, and the other CTA the other."""
        return self.is_paired and isinstance(mine, int) and 2 * mine == whole


def _fit(extent: object, other: object) -> bool:
    """Whether two extents may be equal: run-time extents fit anything."""
    return not (isinstance(extent, int) and isinstance(other, int)) or extent == other


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Give the value of one element to the enclosing `cute.map`; of several tiles to `cute.scan`.

    Example:

        cute.kernel @k(%x: f32) {
          %r = cute.map () -> !cute.fragment<f32, "(8,8)"> {
            cute.yield %x : f32
          }
        }
    """

    name = "cute.yield"
    value = operand_def()
    others = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$value (`,` $others^)? attr-dict `:` type($value) (`,` type($others)^)?"

    def __init__(self, value: SSAValue, *others: SSAValue) -> None:
        Operation.__init__(self, operands=(value, *others))


YieldOp.value = BeforeVariadicSingleAccessor(VarIRConstruct.OPERAND, 0)


@irdl_op_definition
class MapOp(IRDLOperation):
    """Compute each element of a new register tile from the elements of others.

    Shapes align from the left; missing modes count as 1, and modes of extent 1 broadcast. The body
    is scalar code on one element; scalars from outside may be used in it directly.

    Example:

        cute.kernel @k(%s: f32) {
          %x = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
          cute.fill %x, %s : !cute.fragment<f32, "(64,64)">
          %y = cute.map (%v = %x : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f32, "(64,64)"> {
            %p = arith.mulf %v, %s : f32
            cute.yield %p : f32
          }
        }
    """

    name = "cute.map"
    inputs = var_operand_def(FragmentType)
    result = result_def(FragmentType)
    body = region_def("single_block")
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self, inputs: Sequence[SSAValue], result: FragmentType, body: Region | Block
    ) -> None:
        region = body if isinstance(body, Region) else Region(body)
        Operation.__init__(self, operands=inputs, result_types=(result,), regions=(region,))

    @staticmethod
    def of(
        make: Callable[..., Operation], inputs: Sequence[SSAValue], result: FragmentType
    ) -> MapOp:
        """The map that computes one op: what `make` gives for an element of each input."""
        body = Block(arg_types=[fragment_of(each).element for each in inputs])
        made = make(*body.args)
        body.add_ops([made, YieldOp(made.results[0])])
        return MapOp(inputs, result, body)

    @classmethod
    def parse(cls, parser: Parser) -> MapOp:
        inputs: list[SSAValue] = []
        args: list[Parser.Argument] = []

        def one() -> None:
            name = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            unresolved = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            type_ = parser.parse_type()
            inputs.append(parser.resolve_operand(unresolved, type_))
            element = type_.element if isinstance(type_, FragmentType) else type_
            args.append(name.resolve(element))

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
        parser.parse_punctuation("->")
        result = parser.parse_type()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        region = parser.parse_region(args)
        op = cls.create(operands=inputs, result_types=[result], regions=[region])
        return with_attributes(op, {} if attributes is None else attributes.data)

    def print(self, printer: Printer) -> None:
        printer.print_string(" (")

        def one(pair: tuple[SSAValue, SSAValue]) -> None:
            arg, value = pair
            printer.print_ssa_value(arg)
            printer.print_string(" = ")
            printer.print_ssa_value(value)
            printer.print_string(" : ")
            printer.print_attribute(value.type)

        printer.print_list(list(zip(self.body.block.args, self.inputs, strict=True)), one)
        printer.print_string(") -> ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    def effects(self) -> Effects:
        return Effects(reads=tuple(self.operands))

    def verify_(self) -> None:
        shape = shape_of(self.results[0].type)
        args, inputs = self.body.block.args, self.operands
        if len(args) != len(inputs):
            raise VerifyException(
                f"expected one block argument for each of {len(inputs)} inputs, got {len(args)}"
            )
        for arg, value in zip(args, inputs, strict=True):
            element = element_of(value.type)
            if arg.type != element:
                raise VerifyException(
                    f"expected a block argument of type {element}, got {arg.type}"
                )
            if not broadcasts(shape_of(value.type), shape):
                raise VerifyException(
                    f"expected a shape that broadcasts to {shape}, got {shape_of(value.type)}"
                )
        last = self.body.block.last_op
        check(isinstance(last, YieldOp), "expected the body to end with cute.yield")
        assert isinstance(last, YieldOp)
        element = element_of(self.results[0].type)
        if last.value.type != element:
            raise VerifyException(f"expected to yield {element}, got {last.value.type}")


def broadcasts(shape: tuple, to: tuple) -> bool:
    """Whether a tile of `shape` broadcasts to `to`: aligned from the left, 1 stretches."""
    if shape == to:
        return True
    padded = shape + (1,) * (len(to) - len(shape))
    return len(padded) == len(to) and all(
        extent in (1, target) for extent, target in zip(padded, to, strict=True)
    )
