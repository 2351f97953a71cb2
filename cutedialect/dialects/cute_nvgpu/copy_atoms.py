"""Copy atoms: the base that finds an atom's entry in the registry, and those that threads execute:
plain loads and stores, those that bring operands into the form that is multiplied, `cp.async`,
`ldmatrix` and `stmatrix`.
"""

from __future__ import annotations

from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    FloatTF32Type,
)
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from cutedialect.atoms import CopyAtom, copy, copy_atom
from cutedialect.atoms.tmem_copy_atoms import WHOLE_SHAPES
from cutedialect.dialects.checks import check
from cutedialect.dialects.effects import Unit

from .syntax import parse_bits, parse_key

COPY_BITS = (8, 16, 32, 64, 128)
ASYNC_BITS = (32, 64, 128)
SHIFTED_BITS = (8, 16, 32)
FORMS = {"convert": (16,), "shift": SHIFTED_BITS, "transpose": (8, 32)}
"""What threads do to a tile on its way to a multiply, and bits of an element behind it."""
CACHES = {"always": "ca", "global": "cg"}


class CopyType(Data[tuple], TypeAttribute):
    """Base of the copy atoms that are one instruction with targets and memory spaces of its own."""

    def entry_name(self, rank: int) -> str:
        """Name of the entry in `cutedialect.atoms`; `rank` is that of a tensor map."""
        raise NotImplementedError

    def entry(
        self, source: str, destination: str, target: str | None = None, rank: int = 2
    ) -> CopyAtom:
        """The entry of the atom registry that this type names.

        Raises VerifyException when it does not copy from space `source` to space `destination`
        (`gmem`, `smem`, `rmem`), or when `target` lacks it.
        """
        atom = copy_atom(self.entry_name(rank))
        spaces = atom.src_space, atom.dst_space
        check(
            spaces == (source, destination),
            f"expected a copy from {spaces[0]} to {spaces[1]} with {self.name}, "
            f"got one from {source} to {destination}",
        )
        if target is not None and not atom.is_legal_on(target):
            others = [each for each in copy() if (each.src_space, each.dst_space) == spaces]
            kinds = dict.fromkeys(each.kind for each in others if each.is_legal_on(target))
            if "rmem" not in spaces:
                kinds["ld and st"] = None
            check(
                False,
                f"expected a copy from {source} to {destination} that {target} has "
                f"({', '.join(kinds)}), got {atom.name}, which needs {atom.requires}",
            )
        return atom


@irdl_attr_definition
class UniversalCopyType(Data[tuple], TypeAttribute):
    """Plain loads and stores: `!cute_nvgpu.atom.universal_copy<f16, 128 b>`."""

    name = "cute_nvgpu.atom.universal_copy"

    @classmethod
    def get(cls, element: Attribute, bits: int) -> UniversalCopyType:
        return cls((element, bits))

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def bits(self) -> int:
        """Bits that one thread moves at once, at most."""
        return self.data[1]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            element = parser.parse_type()
            parser.parse_punctuation(",")
            return element, parse_bits(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            printer.print_string(f", {self.bits} b")

    def verify(self) -> None:
        check(self.bits in COPY_BITS, f"expected a copy of {COPY_BITS} bits, got {self.bits}")


@irdl_attr_definition
class OperandCopyType(Data[tuple], TypeAttribute):
    """A tile on its way to a multiply, to shared memory in the form in which it is multiplied,
    through registers of threads: `!cute_nvgpu.atom.operand_copy<convert, bf16>`, with the form and
    the element type that it then has.

    `convert` makes 16-bit floats of 8-bit ones, exactly. `shift` takes a tile whose rows begin at
    any element of global memory: a thread loads the aligned 16 bytes around each of its vectors,
    and those that follow, and shifts what it wants out of both (`shf`), so that loads and stores
    are of 16 bytes. In shared memory it reads what an asynchronous copy `around` the tile `of`
    global memory has brought. `tf32` rounds elements of f32 on the way. `transpose` takes a tile
    (rows, depth) in shared memory whose rows are contiguous to one whose depth is, of which 16
    bytes in a row are some neighbors. Of bytes a warp takes 32 by 16 at once: transposed `ldmatrix`
    brings pairs of them, which `prmt` regroups and `stmatrix` writes. Of words a thread takes 4 by
    4, and loads and stores vectors of 4.
    """

    name = "cute_nvgpu.atom.operand_copy"

    @classmethod
    def get(cls, form: str, element: Attribute) -> OperandCopyType:
        return cls((form, element))

    @property
    def form(self) -> str:
        """What is done on the way: one of `FORMS`."""
        return self.data[0]

    @property
    def element(self) -> Attribute:
        """The element type behind it."""
        return self.data[1]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            form = parser.parse_identifier()
            parser.parse_punctuation(",")
            return form, parser.parse_type()

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.form}, ")
            printer.print_attribute(self.element)

    def verify(self) -> None:
        check(self.form in FORMS, f"expected a form ({', '.join(FORMS)}), got {self.form}")
        bits = 32 if isinstance(self.element, FloatTF32Type) else _bits(self.element)
        listed = ", ".join(map(str, FORMS[self.form]))
        check(
            bits in FORMS[self.form],
            f"expected elements of {listed} bits to {self.form}, got {self.element}",
        )


@irdl_attr_definition
class AlignedStoreType(Data[tuple], TypeAttribute):
    """A tile in shared memory to one in global memory whose lines begin at any element, through
    registers of threads: `!cute_nvgpu.atom.aligned_store<bf16, groups = 2>`.

    A thread reads two neighboring vectors of a line, shifts what belongs to aligned 16 bytes out of
    both (`shf`), and stores these; the ends of lines go in the widest pieces that their alignment
    allows. So the lines of the source have room for 16 bytes behind them. Each of `groups` of
    threads stores an equal block of the lines.
    """

    name = "cute_nvgpu.atom.aligned_store"

    @classmethod
    def get(cls, element: Attribute, groups: int = 1) -> AlignedStoreType:
        return cls((element, groups))

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def groups(self) -> int:
        return self.data[1]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            element = parser.parse_type()
            groups = 1
            if parser.parse_optional_punctuation(",") is not None:
                parse_key(parser, "groups")
                groups = parser.parse_integer(allow_boolean=False)
            return element, groups

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            printer.print_string("" if self.groups == 1 else f", groups = {self.groups}")

    def verify(self) -> None:
        bits = getattr(self.element, "bitwidth", None)
        check(
            bits in SHIFTED_BITS,
            f"expected elements of 8, 16 or 32 bits to shift, got {self.element}",
        )
        check(self.groups > 0, f"expected a number of groups above 0, got {self.groups}")


@irdl_attr_definition
class SimtAsyncCopyType(CopyType):
    """`cp.async`: `!cute_nvgpu.atom.simt_async_copy<f16, cache = global, 128 b>`.

    `cache = global` is `.cg` (L2 only, 16 bytes), `always` is `.ca`. With `around`, rows begin at
    any element, and come with all of the aligned 16 bytes that hold one of their elements, each as
    far behind the start of its row in the destination as it begins behind aligned 16 bytes in the
    source; an `operand_copy` that shifts reads them there.
    """

    name = "cute_nvgpu.atom.simt_async_copy"
    unit = Unit.CP_ASYNC

    @classmethod
    def get(
        cls, element: Attribute, cache: str, bits: int, around: bool = False
    ) -> SimtAsyncCopyType:
        return cls((element, cache, bits, around))

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def cache(self) -> str:
        return self.data[1]

    @property
    def bits(self) -> int:
        """Bits that one thread moves with one instruction."""
        return self.data[2]

    @property
    def around(self) -> bool:
        """Whether rows come with the aligned words around them."""
        return self.data[3]

    def entry_name(self, rank: int) -> str:
        return f"cp_async_{CACHES[self.cache]}_{self.bits}"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            element = parser.parse_type()
            parser.parse_punctuation(",")
            parse_key(parser, "cache")
            cache = parser.parse_identifier()
            parser.parse_punctuation(",")
            bits = parse_bits(parser)
            around = parser.parse_optional_punctuation(",") is not None
            if around:
                parser.parse_keyword("around")
            return element, cache, bits, around

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            printer.print_string(f", cache = {self.cache}, {self.bits} b")
            printer.print_string(", around" if self.around else "")

    def verify(self) -> None:
        check(self.cache in CACHES, f"expected cache always or global, got {self.cache}")
        check(self.bits in ASYNC_BITS, f"expected cp.async of {ASYNC_BITS} bits, got {self.bits}")
        check(
            self.cache == "always" or self.bits == 128,
            f"expected 128 bits with cache = global, got {self.bits}",
        )
        check(
            not self.around or self.bits == 128,
            f"expected 128 bits for aligned words around rows, got {self.bits}",
        )


class MatrixCopyType(CopyType):
    """Base of `ldmatrix` and `stmatrix`: element, matrices of 8x8 (16-bit units), transposed or not."""

    instruction: ClassVar[str]

    @classmethod
    def get(cls, element: Attribute, num_matrices: int, transpose: bool) -> Self:
        return cls((element, num_matrices, transpose))

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def num_matrices(self) -> int:
        return self.data[1]

    @property
    def transpose(self) -> bool:
        return self.data[2]

    def entry_name(self, rank: int) -> str:
        return f"{self.instruction}_x{self.num_matrices}{'_trans' if self.transpose else ''}"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            parse_key(parser, "val_type")
            element = parser.parse_type()
            parser.parse_punctuation(",")
            parse_key(parser, "num_matrices")
            matrices = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(",")
            start = parser.pos
            form = parser.parse_identifier()
            if form not in ("n", "t"):
                parser.raise_error(f"expected n or t, got {form}", start, parser.pos)
            return element, matrices, form == "t"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("val_type = ")
            printer.print_attribute(self.element)
            form = "t" if self.transpose else "n"
            printer.print_string(f", num_matrices = {self.num_matrices}, {form}")

    def verify(self) -> None:
        check(
            self.num_matrices in (1, 2, 4),
            f"expected 1, 2 or 4 matrices, got {self.num_matrices}",
        )


@irdl_attr_definition
class LdsmType(MatrixCopyType):
    """`ldmatrix`: `!cute_nvgpu.atom.ldsm<val_type = f16, num_matrices = 4, n>` (`t`: transposed)."""

    name = "cute_nvgpu.atom.ldsm"
    instruction = "ldmatrix"


@irdl_attr_definition
class StsmType(MatrixCopyType):
    """`stmatrix`: `!cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>` (`t`: transposed)."""

    name = "cute_nvgpu.atom.stsm"
    instruction = "stmatrix"


class _TmemTransferType(CopyType):
    """Whole warps move tiles between registers and tensor memory: element and shape."""

    @classmethod
    def get(cls, element: Attribute, shape: str = "") -> Self:
        """The shape left out is the one whose registers hold what those of an `mma.sync`
        accumulator do, 16 lanes and 8 elements of each.
        """
        return cls((element, shape or ("16x256b" if _bits(element) == 32 else "16x128b")))

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def shape(self) -> str:
        """Lanes and bits of each that lie in the registers of a warp (PTX ISA 9.7.16.2.3)."""
        return self.data[1]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            element = parser.parse_type()
            parser.parse_punctuation(",")
            # `16x256b` is a number and a word to the lexer.
            lanes = parser.parse_integer(allow_boolean=False, allow_negative=False)
            return element, f"{lanes}{parser.parse_identifier()}"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            printer.print_string(f", {self.shape}")

    def verify(self) -> None:
        check(
            _bits(self.element) in (16, 32),
            f"expected elements of 16 or 32 bits in registers, got {self.element}",
        )
        check(
            self.shape in WHOLE_SHAPES,
            f"expected a shape of {', '.join(WHOLE_SHAPES)}, got {self.shape}",
        )


def _bits(element: Attribute) -> int | None:
    return getattr(element, "bitwidth", None)


@irdl_attr_definition
class TmemLoadType(_TmemTransferType):
    """`tcgen05.ld` by whole warps, and the wait for it: `!cute_nvgpu.atom.tmem_load<f32, 16x256b>`.

    A warp reaches a quarter of the lanes of tensor memory (PTX ISA 9.7.16.8.1). With `16x256b` of
    32 bits, or `16x128b` of 16, its registers get what those of an `mma.sync` accumulator hold, 16
    lanes and 8 elements of each at a time; with `32x32b` a thread gets a lane.
    """

    name = "cute_nvgpu.atom.tmem_load"

    def entry_name(self, rank: int) -> str:
        return f"tcgen05_ld_{self.shape}_x1"


@irdl_attr_definition
class TmemStoreType(_TmemTransferType):
    """`tcgen05.st` by whole warps, and the wait for it: `!cute_nvgpu.atom.tmem_store<f16, 16x128b>`.

    A warp writes what its registers hold (PTX ISA 9.7.16.8.2), in the shapes of `tmem_load`: an
    accumulator, or in 16 bits A of the next multiply.
    """

    name = "cute_nvgpu.atom.tmem_store"

    def entry_name(self, rank: int) -> str:
        return f"tcgen05_st_{self.shape}_x1"
