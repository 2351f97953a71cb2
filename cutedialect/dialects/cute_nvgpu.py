"""The `cute_nvgpu` dialect: copy and MMA atoms as types that `cute.copy` and `cute.gemm` carry.

An atom's facts (layouts, registers, targets) are data in `cutedialect.atoms`; a type here names one
entry of it, in the spelling of NVIDIA's CuTe IR.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Data, Dialect, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms import MmaAtom, mma
from cutedialect.dialects.element_names import element_name, operand_name

COPY_BITS = (8, 16, 32, 64, 128)
ASYNC_BITS = (32, 64, 128)
CACHES = ("always", "global")


def _key(parser: AttrParser, name: str) -> None:
    parser.parse_keyword(name)
    parser.parse_punctuation("=")


def _bits(parser: AttrParser) -> int:
    bits = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_keyword("b")
    return bits


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise VerifyException(message)


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
            return element, _bits(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            printer.print_string(f", {self.bits} b")

    def verify(self) -> None:
        _expect(self.bits in COPY_BITS, f"expected a copy of {COPY_BITS} bits, got {self.bits}")


@irdl_attr_definition
class SimtAsyncCopyType(Data[tuple], TypeAttribute):
    """`cp.async`: `!cute_nvgpu.atom.simt_async_copy<f16, cache = global, 128 b>`.

    `cache = global` is `.cg` (L2 only, 16 bytes), `always` is `.ca`.
    """

    name = "cute_nvgpu.atom.simt_async_copy"

    @classmethod
    def get(cls, element: Attribute, cache: str, bits: int) -> SimtAsyncCopyType:
        return cls((element, cache, bits))

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

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            element = parser.parse_type()
            parser.parse_punctuation(",")
            _key(parser, "cache")
            cache = parser.parse_identifier()
            parser.parse_punctuation(",")
            return element, cache, _bits(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            printer.print_string(f", cache = {self.cache}, {self.bits} b")

    def verify(self) -> None:
        _expect(self.cache in CACHES, f"expected cache always or global, got {self.cache}")
        _expect(self.bits in ASYNC_BITS, f"expected cp.async of {ASYNC_BITS} bits, got {self.bits}")
        _expect(
            self.cache == "always" or self.bits == 128,
            f"expected 128 bits with cache = global, got {self.bits}",
        )


@irdl_attr_definition
class LdsmType(Data[tuple], TypeAttribute):
    """`ldmatrix`: `!cute_nvgpu.atom.ldsm<val_type = f16, num_matrices = 4, n>` (`t`: transposed)."""

    name = "cute_nvgpu.atom.ldsm"

    @classmethod
    def get(cls, element: Attribute, num_matrices: int, transpose: bool) -> LdsmType:
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

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            _key(parser, "val_type")
            element = parser.parse_type()
            parser.parse_punctuation(",")
            _key(parser, "num_matrices")
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
        _expect(
            self.num_matrices in (1, 2, 4),
            f"expected 1, 2 or 4 matrices, got {self.num_matrices}",
        )


@irdl_attr_definition
class Sm80MmaType(Data[tuple], TypeAttribute):
    """`mma.sync`: `!cute_nvgpu.sm80.mma<16x8x16, elem_type = (f16, f16, f32)>`."""

    name = "cute_nvgpu.sm80.mma"

    @classmethod
    def get(
        cls, shape: tuple[int, int, int], a: Attribute, b: Attribute, c: Attribute
    ) -> Sm80MmaType:
        return cls((tuple(shape), a, b, c))

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
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            start = parser.pos
            shape = tuple(parser.parse_dimension_list())
            if len(shape) != 3:
                parser.raise_error(f"expected a shape MxNxK, got {shape}", start, parser.pos)
            parser.parse_punctuation(",")
            _key(parser, "elem_type")
            types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
            if len(types) != 3:
                parser.raise_error(f"expected types (a, b, c), got {len(types)}")
            return (shape, *types)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("x".join(map(str, self.shape)) + ", elem_type = (")
            printer.print_list((self.a, self.b, self.c), printer.print_attribute)
            printer.print_string(")")

    def verify(self) -> None:
        for element in (self.a, self.b, self.c):
            _expect(
                isinstance(element, AnyFloat | IntegerType),
                f"expected element types, got {element}",
            )
        self.entry()

    def entry(self, target: str | None = None) -> MmaAtom:
        """The entry of the atom registry that this type names.

        Raises VerifyException when there is none, or none on `target`.
        """
        names = operand_name(self.a), operand_name(self.b), element_name(self.c)
        typed = [atom for atom in mma() if tuple(atom.types[:3]) == names]
        found = [atom for atom in typed if atom.shape_mnk == self.shape and atom.majors == "TN"]
        if not found:
            near = sorted({"x".join(map(str, atom.shape_mnk)) for atom in typed})
            _expect(
                False,
                f"expected an mma of {' x '.join(names[:2])} into {names[2]} "
                f"({', '.join(near) or 'there is none'}), got {'x'.join(map(str, self.shape))}",
            )
        if target is not None:
            here = [atom for atom in found if atom.is_legal_on(target)]
            _expect(
                bool(here),
                f"expected an mma that {target} has, got {found[0].name}, which needs "
                f"{found[0].requires}",
            )
            found = here
        return found[0]


CuteNvgpu = Dialect("cute_nvgpu", [], [UniversalCopyType, SimtAsyncCopyType, LdsmType, Sm80MmaType])
