"""Types of the `ptx` dialect: a scalar register is written once, an array of registers is mutable,
a tensor map is an address, a descriptor says where a matrix is in shared memory.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms.matrix_descriptor import MatrixDescriptor

CLASSES: tuple[str, ...] = ("pred", "b16", "b32", "b64", "f32", "f64")


def check(condition: bool, message: str) -> None:
    """Raise `VerifyException(message)` unless `condition`."""
    if not condition:
        raise VerifyException(message)


def parse_class(parser: AttrParser) -> str:
    """The name of a register class."""
    start = parser.pos
    name = parser.parse_identifier()
    if name not in CLASSES:
        parser.raise_error(
            f"expected a register class ({', '.join(CLASSES)}), got {name}", start, parser.pos
        )
    return name


@irdl_attr_definition
class RegType(Data[str], TypeAttribute):
    """A scalar register, written once: `!ptx.reg<b32>`."""

    name = "ptx.reg"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parse_class(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    @property
    def cls(self) -> str:
        return self.data

    def verify(self) -> None:
        check(
            self.data in CLASSES,
            f"expected a register class ({', '.join(CLASSES)}), got {self.data}",
        )


@irdl_attr_definition
class RegsType(Data[tuple], TypeAttribute):
    """A mutable array of registers of one class: `!ptx.regs<f32 x 64>`."""

    name = "ptx.regs"

    @classmethod
    def get(cls, register_class: str, count: int) -> RegsType:
        return cls((register_class, count))

    @property
    def cls(self) -> str:
        return self.data[0]

    @property
    def count(self) -> int:
        return self.data[1]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            register_class = parse_class(parser)
            parser.parse_keyword("x")
            return register_class, parser.parse_integer(allow_boolean=False, allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.cls} x {self.count}")

    def verify(self) -> None:
        check(
            self.cls in CLASSES,
            f"expected a register class ({', '.join(CLASSES)}), got {self.cls}",
        )
        check(self.count > 0, f"expected at least one register, got {self.count}")


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """The generic address of a tensor map among the kernel's parameters: `!ptx.tensor_map`.

    A kernel's parameter of this type is 128 opaque bytes, aligned to 64 (PTX ISA 5.5.8).
    """

    name = "ptx.tensor_map"


@irdl_attr_definition
class SmemDescType(Data[MatrixDescriptor], TypeAttribute):
    """A descriptor in a register of class b64:
    `!ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>`.

    The unit that reads it (PTX ISA 9.7.15.5.1.2, 9.7.16.4.1), the major of the matrix, its swizzle and its two offsets in bytes. With
    `leading = ?` the leading offset comes with the start address.
    """

    name = "ptx.smem_desc"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MatrixDescriptor:
        with parser.in_angle_brackets():
            unit = parser.parse_identifier()
            parser.parse_punctuation(",")
            major = parser.parse_identifier()
            parser.parse_punctuation(",")
            # `128B` is a number and a word to the lexer.
            width = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
            mode = f"{'' if width is None else width}{parser.parse_identifier()}"
            parser.parse_punctuation(",")
            parser.parse_keyword("leading")
            parser.parse_punctuation("=")
            unknown = parser.parse_optional_punctuation("?") is not None
            lbo = None if unknown else parser.parse_integer(False, False)
            parser.parse_punctuation(",")
            parser.parse_keyword("stride")
            parser.parse_punctuation("=")
            sbo = parser.parse_integer(False, False)
        return MatrixDescriptor(major, lbo, sbo, mode, unit)

    def print_parameter(self, printer: Printer) -> None:
        one = self.data
        leading = "?" if one.lbo is None else one.lbo
        with printer.in_angle_brackets():
            printer.print_string(
                f"{one.unit}, {one.major}, {one.mode}, leading = {leading}, stride = {one.sbo}"
            )

    def verify(self) -> None:
        try:
            self.data.check()
        except ValueError as error:
            raise VerifyException(str(error)) from error


TENSOR_MAP = TensorMapType()

PRED, B16, B32, B64, F32, F64 = (RegType(name) for name in CLASSES)
_OF_CLASS: dict[str, RegType] = dict(zip(CLASSES, (PRED, B16, B32, B64, F32, F64), strict=True))


def reg(register_class: str) -> RegType:
    """The shared RegType of a class."""
    return _OF_CLASS[register_class]  # pyright: ignore[reportArgumentType]


_WIDTHS: dict[str, int] = {"pred": 1, "b16": 16, "b32": 32, "f32": 32, "b64": 64, "f64": 64}


def width_of(type_: Attribute) -> int:
    """Bits of a scalar register."""
    assert isinstance(type_, RegType)
    return _WIDTHS[type_.data]
